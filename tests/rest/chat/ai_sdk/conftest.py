"""A server of chats, people who talk to it, and gates at which its models wait."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from .clients import Browser
from .server import Server


@pytest.fixture(scope="package")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("chats")


@pytest.fixture(scope="package")
def chats(home, django_db_setup, other_process) -> Iterator[Server]:
    """One server for all tests."""
    with Server(home) as server:
        yield server


@pytest.fixture(scope="module")
def beside(home, django_db_setup, other_process) -> Iterator[Callable[[], Server]]:
    """Gives another server of the same site, a new one where the last has ended."""
    started: list[Server] = []

    def running() -> Server:
        if not started or started[-1].process.poll() is not None:
            started.append(Server(home))
        return started[-1]

    yield running
    for server in started:
        if server.process.poll() is None:
            server.stop()


@pytest.fixture
def browser(chats, transactional_db, ada) -> Iterator[Browser]:
    """Ada, signed in."""
    with Browser(chats, ada) as opened:
        yield opened


@pytest.fixture
def stranger(chats, browser, bob) -> Iterator[Browser]:
    """Bob, signed in."""
    with Browser(chats, bob) as opened:
        yield opened


@pytest.fixture
def gate(chats):
    """Waits for a model to be at a gate, and opens it."""
    return Gates(chats)


class Gates:
    def __init__(self, server: Server) -> None:
        self._server = server

    def reached(self, name: str) -> None:
        """Waits until a model is there."""
        deadline = time.monotonic() + 30
        while not (self._server.gates / f"{name}.waiting").exists():
            assert time.monotonic() < deadline, self._server.log
            time.sleep(0.02)

    def open(self, name: str) -> None:
        (self._server.gates / name).touch()
