"""``python -m benchmarks.load``: two hundred agents at once through the example's server.

Each person has a login and several conversations with an agent of either SDK, and reads every
answer to its end. It needs Linux, PostgreSQL (PGHOST, PGPORT, PGUSER, PGPASSWORD) or SQLite, and
takes Redis (REDIS_URL) as the cache that the server's processes share, or else the database. It
ends with 1 where an answer was wrong, something was lost or doubled, or a bound was broken.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .plan import REAL_MODELS, Plan, parsed

RAMP = 0.05
"""Seconds between one person's coming and the next."""

QUIET = 5
"""Seconds after the last answer, after which nothing should be held any more."""

_SHOWN = 10


def main() -> int:
    """Runs it.

    Returns:
        The exit status.
    """
    plan = parsed()
    with _directory() as directory:
        _prepare_environment(plan, directory)
        import django

        django.setup()
        # What follows needs Django's settings.
        from . import report

        found = _run(plan, directory)
        for heading, lines in (
            ("Errors", found.errors),
            ("Server's log", found.log),
            ("Conversations", found.faults),
        ):
            for line in lines[:_SHOWN]:
                print(f"{heading}: {line}", file=sys.stderr)
        print(report.page(found))
        return int(any(row.passed is False for row in report.rows(found)))


def _run(plan: Plan, directory: Path) -> "report.Found":  # noqa: F821,UP037 - imported later
    from django.db import connections

    from django_agent_sessions.models import SessionMessage

    from . import checking, databases, notes, report, settings
    from .people import Diary, Person
    from .servers import Server
    from .watching import Watch, look

    diary = Diary()
    names = [f"person{number}" for number in range(plan.agents)]
    reachable = None
    if plan.database == "postgresql":
        reachable = databases.parameters(settings.DATABASE)
    with databases.prepared(settings.DATABASE, plan.database):
        owners = databases.make_people(names)
        connections.close_all()
        server = Server(
            plan.server,
            workers=plan.workers,
            threads=plan.threads,
            environment={**plan.environment(), "LOAD_ROLE": settings.REQUESTS},
            log=directory / "server.log",
        )
        try:
            server.wait()
            time.sleep(2)
            before = _look(look, server, reachable)
            people = [
                Person(number, name, server.address, plan.think, diary, plan.seed)
                for number, name in enumerate(names)
            ]
            watch = Watch(server.processes, reachable)
            watch.start()
            began, cpu = time.monotonic(), time.process_time()
            asyncio.run(_all(people, began + plan.minutes * 60))
            seconds, cpu = time.monotonic() - began, time.process_time() - cpu
            watch.stop()
            time.sleep(QUIET)
            after = _look(look, server, reachable)
        finally:
            server.stop()
        return report.Found(
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
            client_cpu=cpu,
        )


async def _all(people: "list[Person]", until: float) -> None:  # noqa: F821,UP037 - the same
    began = time.monotonic()
    await asyncio.gather(*(person.live(began + RAMP * person.number, until) for person in people))


def _look(look, server, reachable):  # type: ignore[no-untyped-def]
    import psycopg

    if reachable is None:
        return look(0, server.processes())
    with psycopg.connect(**reachable, autocommit=True, application_name="load: watching") as one:
        return look(0, server.processes(), one)


@contextmanager
def _directory() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="agent-sessions-load-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _prepare_environment(plan: Plan, directory: Path) -> None:
    for name in list(os.environ):
        # Nobody is to pay for this.
        if name in REAL_MODELS or name.startswith("AWS_"):
            del os.environ[name]
    os.environ.update(
        DJANGO_SETTINGS_MODULE="benchmarks.load.settings",
        LOAD_DATABASE=f"agent_sessions_load_{os.getpid()}",
        LOAD_DIRECTORY=str(directory),
        LOAD_VENDOR=plan.database,
        LOAD_REDIS=_redis(),
        LOAD_ROLE="load: client",
    )


def _redis() -> str:
    """Finds Redis, if it is there, and a client for it."""
    address = os.environ.get("REDIS_URL", "redis://127.0.0.1:6379/0")
    try:
        import redis

        redis.Redis.from_url(address, socket_connect_timeout=2).ping()
    except (ImportError, OSError, redis.RedisError):
        return ""
    return address


if __name__ == "__main__":
    sys.exit(main())
