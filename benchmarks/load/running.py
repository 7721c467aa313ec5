"""One run: a database, a server on it, people who talk, and what is there at the end."""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import Sequence
from pathlib import Path

from django.db import connections

from django_agent_sessions.models import SessionMessage

from . import checking, databases, notes, settings
from .people import Diary, Person
from .plan import PACE, Plan
from .report import Found
from .servers import Server
from .watching import Watch

RAMP = 0.05
"""Seconds between one person's coming and the next."""

QUIET = 5
"""Seconds after the last answer, after which nothing should be held any more."""


def run(plan: Plan, directory: Path) -> Found:
    """Runs it."""
    diary = Diary()
    names = [f"person{number}" for number in range(plan.agents)]
    with databases.prepared(settings.DATABASE, plan.database):
        owners = databases.make_people(names)
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
            watch = Watch(server.processes, _reachable(plan))
            # All of its workers are there, and what waiting for it opened is closed.
            time.sleep(QUIET)
            before = watch.look()
            people = [
                Person(number, name, server.address, plan.think, diary, plan.seed)
                for number, name in enumerate(names)
            ]
            watch.start()
            began, computed = time.monotonic(), time.process_time()
            asyncio.run(_talk(people, began + plan.minutes * 60))
            seconds = time.monotonic() - began
            computed = time.process_time() - computed
            watch.stop()
            time.sleep(QUIET)
            after = watch.look()
        finally:
            server.stop()
        return Found(
            plan=plan,
            seconds=seconds,
            diary=diary,
            turns=list(notes.read(directory, "turns")),
            lags=list(itertools.chain(*notes.read(directory, "lag"))),
            samples=watch.samples,
            before=before,
            after=after,
            conversations=sum(len(person.conversations) for person in people),
            messages=SessionMessage.objects.count(),
            errors=diary.errors,
            log=[line for line in server.log().splitlines() if line.strip()],
            faults=list(checking.faults(people, owners)),
            integrity=checking.integrity(),
            database=databases.version(),
            cache="Redis" if os.environ["LOAD_REDIS"] else "the database",
            client_cpu=computed,
        )


async def _talk(people: Sequence[Person], until: float) -> None:
    """Lets people come one after the other, and talk until it is time to end."""
    began = time.monotonic()
    async with asyncio.TaskGroup() as talking:
        for person in people:
            talking.create_task(person.live(began + RAMP * person.number, until))


def _reachable(plan: Plan) -> dict[str, object] | None:
    """How psycopg reaches the database; None where there is no server."""
    if plan.database == "postgresql":
        return databases.parameters(settings.DATABASE)
    return None
