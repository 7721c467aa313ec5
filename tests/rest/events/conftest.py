"""A server that streams, and a session of Ada's in which two agents speak."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from django_agent_sessions.store import SessionStore
from tests.processes import ROOT

from .client import Site


@contextmanager
def serving(**environment: str) -> Iterator[tuple[str, int]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.rest.events.server"],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    with process, process.stdout:
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}", process.pid
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(20)


@pytest.fixture(scope="package")
def server(django_db_setup, other_process) -> Iterator[tuple[str, int]]:
    with serving() as found:
        yield found


@pytest.fixture
def site_of(server) -> Iterator[Callable[[Any], Site]]:
    made: list[Site] = []

    def make(user: Any) -> Site:
        made.append(Site(server[0], user))
        return made[-1]

    yield make
    for one in made:
        one.client.close()


@pytest.fixture
def site(site_of: Callable[[Any], Site], ada) -> Site:
    """The server as Ada sees it."""
    return site_of(ada)


class Speaking:
    """A session that is written in."""

    def __init__(self, owner: Any, name: str = "talk") -> None:
        self.store = SessionStore(owner=owner)
        self.session = self.store.create(name)
        self.id = self.session.id
        self.agents = {
            key: self.store.agents.open(self.session, key, dialect="strands") for key in "ab"
        }

    def say(self, text: str, agent: str = "a") -> Any:
        return self.store.append(self.agents[agent], payload(text))

    def change(self, position: int, text: str, agent: str = "a") -> None:
        self.store.messages.update(self.agents[agent], position, payload(text))

    def redact(self, position: int, agent: str = "a") -> None:
        self.store.messages.redact(self.agents[agent], position, payload("***"))

    def pop(self, agent: str = "a") -> None:
        self.store.pop(self.agents[agent])


def payload(text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"text": text}]}


@pytest.fixture
def talk(ada) -> Speaking:
    return Speaking(ada)
