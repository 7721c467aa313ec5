"""One run: a database, a server on it, people who talk, and what is there at the end."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import psutil
from django.contrib.auth import get_user_model
from django.contrib.auth.hashers import make_password
from django.core.management import call_command
from django.db import connections

from benchmarks import postgresql
from django_agent_sessions.models import SessionMessage

from . import checking, notes, settings
from .plan import PACE, Plan
from .report import Found
from .scripts import PASSWORD, Conversation, Line, name_of
from .servers import ROOT, Server
from .watching import Watch

SPAWN_RATE = 20
"""People who come in a second."""

QUIET = 5
"""Seconds after the last answer, after which nothing should be held any more."""

LAST_ANSWER = 180
"""Seconds within which the last answers have to come to their end."""


def run(plan: Plan, directory: Path) -> Found:
    """Run it, with a directory for its files."""
    with _database(plan):
        owners = _make_people(plan.agents)
        connections.close_all()
        server = Server(
            plan.server,
            workers=plan.workers,
            threads=plan.threads,
            environment={**PACE, "LOAD_POOL": str(plan.pool)},
            log=directory / "server.log",
        )
        try:
            server.wait()
            server_database = plan.database == "postgresql"
            reached = postgresql.parameters(settings.DATABASE) if server_database else None
            watch = Watch(psutil.Process(server.pid), reached)
            # All of its workers are there, and what waiting for it opened is closed.
            time.sleep(QUIET)
            before = watch.look()
            with watch:
                _talk(plan, server.address)
            time.sleep(QUIET)
            after = watch.look()
        finally:
            server.stop()
        met = json.loads((directory / "people.json").read_text())
        conversations = {
            owners[name]: [_conversation(one) for one in found]
            for name, found in met["conversations"].items()
        }
        return Found(
            plan=plan,
            met=met,
            turns=list(notes.read(directory, "turns")),
            lags=list(itertools.chain(*notes.read(directory, "lag"))),
            samples=watch.samples,
            before=before,
            after=after,
            conversations=sum(map(len, conversations.values())),
            messages=SessionMessage.objects.count(),
            log=[line for line in server.log().splitlines() if line.strip()],
            faults=list(checking.faults(conversations)),
            integrity=checking.integrity(),
            database=checking.version(),
            cache="Redis" if os.environ["LOAD_REDIS"] else "the database",
        )


@contextmanager
def _database(plan: Plan) -> Iterator[None]:
    server = plan.database == "postgresql"
    with postgresql.database(settings.DATABASE) if server else nullcontext():
        try:
            call_command("migrate", verbosity=0)
            call_command("createcachetable", verbosity=0)
            yield
        finally:
            connections.close_all()


def _make_people(count: int) -> dict[str, int]:
    """Make users who can log in; return their primary keys by name."""
    model = get_user_model()
    # One salt for all: their passwords are no secret.
    password = make_password(PASSWORD)
    made = model.objects.bulk_create(
        model(username=name_of(number), password=password) for number in range(count)
    )
    return {each.get_username(): each.pk for each in made}


def _talk(plan: Plan, address: str) -> None:
    """Let people come one after the other, and talk until it is time to end."""
    arguments = ["-f", str(Path(__file__).with_name("people.py")), "--host", address]
    arguments += ["--headless", "--only-summary", "--loglevel", "WARNING"]
    arguments += ["--users", str(plan.agents), "--spawn-rate", str(SPAWN_RATE)]
    arguments += ["--run-time", f"{plan.minutes * 60:.0f}s", "--stop-timeout", str(LAST_ANSWER)]
    subprocess.run(
        # What a person met is an error of the report, not of the process.
        [sys.executable, "-m", "locust", *arguments, "--exit-code-on-error", "0"],
        cwd=ROOT,
        env={
            **os.environ,
            "LOAD_SEED": str(plan.seed),
            "LOAD_THINK": " ".join(map(str, plan.think)),
        },
        stdout=subprocess.DEVNULL,
        check=True,
    )


def _conversation(found: dict[str, Any]) -> Conversation:
    lines = [Line(**line) for line in found["lines"]]
    return Conversation(found["id"], found["kind"], lines=lines)
