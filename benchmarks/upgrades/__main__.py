"""``python -m benchmarks.upgrades``: ten million messages from the first schema to the newest.

A database of each kind (PostgreSQL and MariaDB on servers of this run alone) is filled at the
migration 0001. While one process reads a session and another appends to it, each later migration
is applied, and all are undone. The table has the time of each, how long a read and an append
waited at most, and on PostgreSQL how long the locks were held that block them. It takes up to 12 GB
for one database at a time.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from benchmarks.servers import MariaDBServer, PostgreSQLServer, end_on_sigterm, scratch
from benchmarks.tables import DASH, machine, table, verdict

DATABASES = ("postgresql", "sqlite", "mariadb")
MESSAGES = 10_000_000
QUIET = 3
"""Seconds of reading and appending before the first migration, to compare with."""

SAMPLE = 0.002
CHECKED = 200
_HEAD = ["database", "migration", "seconds", "longest read", "longest append", "blocking locks"]
_SQLITE = {
    "transaction_mode": "IMMEDIATE",
    # To measure every wait to its end.
    "timeout": 600,
    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;",
}
# As a site of this size has them.
_POSTGRESQL = {"shared_buffers": "1GB", "max_wal_size": "4GB", "maintenance_work_mem": "256MB"}
_MARIADB = {"innodb_buffer_pool_size": "1G", "innodb_log_file_size": "1G"}
_BLOCKING = (
    "SELECT relation::regclass::text, mode FROM pg_locks WHERE granted AND pid = %s "
    "AND mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock') "
    "AND relation::regclass::text IN "
    "('agent_sessions_session', 'agent_sessions_sessionmessage', 'agent_sessions_usagerollup')"
)


def main() -> int:
    """Run it on each database; return 0 if no row was lost or altered and nothing failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.upgrades", description=__doc__)
    parser.add_argument("--database", choices=[*DATABASES, "all"], default="all")
    parser.add_argument("--messages", type=int, default=MESSAGES)
    parser.add_argument("--directory", type=Path, help="keep the data here, and use what is there")
    given = parser.parse_args()
    end_on_sigterm()
    if given.database == "all":
        # One process for each, because Django has one set of settings in each.
        command = [sys.executable, "-m", "benchmarks.upgrades", "--messages", str(given.messages)]
        if given.directory:
            command += ["--directory", str(given.directory)]
        statuses = [
            subprocess.run([*command, "--database", database], check=False).returncode
            for database in DATABASES
        ]
        return int(any(statuses))
    kept = nullcontext(given.directory) if given.directory else scratch()
    with kept as directory, _database(given.database, directory) as entry:
        os.environ["UPGRADE_DATABASE"] = json.dumps(entry)
        os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.upgrades.settings"
        import django

        django.setup()
        return _measure(given.database, given.messages)


@contextmanager
def _database(vendor: str, directory: Path) -> Iterator[dict[str, Any]]:
    if vendor == "sqlite":
        name = str(directory / "upgrade.sqlite3")
        yield {"ENGINE": "django.db.backends.sqlite3", "NAME": name, "OPTIONS": _SQLITE}
        return
    place = directory.resolve() / vendor
    server = (
        PostgreSQLServer(place, settings=_POSTGRESQL)
        if vendor == "postgresql"
        else MariaDBServer(place, settings=_MARIADB)
    )
    there = server.data.exists()
    server.start()
    try:
        if not there:
            server.create("upgrade")
        yield server.django("upgrade")
    finally:
        # Where its data is not kept, it goes with the directory around it.
        server.stop(patience=600)


def _measure(database: str, messages: int) -> int:
    from django.core.management import call_command
    from django.db import connection

    from benchmarks.upgrades.filling import fill, sums

    if connection.introspection.table_names():
        print("  the data of an earlier run", file=sys.stderr)
    else:
        fill(messages)
    before = sums()
    first, *later = _migrations()
    rows = []
    with Traffic("read") as reader, Traffic("append") as writer:

        def time_step(name: str, step: Callable[[], Any]) -> None:
            begun = time.monotonic()
            with Locks() as locks:
                step()
            ended = time.monotonic()
            # What still waited has ended by then.
            time.sleep(1)
            waits = [f"{each.longest(begun, ended) * 1000:.0f} ms" for each in (reader, writer)]
            rows.append([database, name, f"{ended - begun:.2f}", *waits, locks.held()])

        time_step("none", lambda: time.sleep(QUIET))
        for name in later:
            time_step(name, lambda name=name: _migrate(name))
        arrived = sums()
        call_command("agent_sessions_check", *_some_sessions(), verbosity=0)
        time_step(f"back to {first}", lambda: _migrate(first))
        errors = reader.errors + writer.errors
    unharmed = before == arrived == sums()
    print(table(_HEAD, rows, "llrrrl"))
    print(f"\n{messages:,} messages, {machine()}")
    print(f"rows as before, after all migrations and after the way back: {verdict(unharmed)}")
    for error in sorted(set(errors)):
        print(f"{errors.count(error)} times: {error}")
    return int(not unharmed or bool(errors))


def _migrations() -> list[str]:
    from django.db import connection
    from django.db.migrations.loader import MigrationLoader

    loader = MigrationLoader(connection)
    [leaf] = loader.graph.leaf_nodes("agent_sessions")
    plan = loader.graph.forwards_plan(leaf)
    return [name for app, name in plan if app == "agent_sessions"]


def _migrate(name: str) -> None:
    from django.core.management import call_command

    call_command("migrate", "agent_sessions", name, verbosity=0)


def _some_sessions() -> list[str]:
    from benchmarks.upgrades.filling import traffic_keys
    from django_agent_sessions.models import Session

    # What a server of the first schema wrote last comes after the migration of payloads.
    rows = Session.objects.exclude(pk=traffic_keys()[0]).order_by("pk")
    return [str(key) for key in rows.values_list("pk", flat=True)[:CHECKED]]


class Traffic(threading.Thread):
    """Reads or appends by a process of its own."""

    def __init__(self, work: str) -> None:
        super().__init__(daemon=True)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.upgrades.traffic", work],
            stdout=subprocess.PIPE,
            text=True,
        )
        self._times: list[tuple[float, float]] = []
        self.errors: list[str] = []

    def run(self) -> None:
        """Take in what it prints."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            begun, lasted, error = line.rstrip("\n").split(" ", 2)
            self._times.append((float(begun), float(lasted)))
            if error:
                self.errors.append(error)

    def __enter__(self) -> Traffic:
        self.start()
        while not self._times:
            if self._process.poll() is not None:
                raise SystemExit("nothing reads or appends; see above")
            time.sleep(0.1)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self.join()

    def longest(self, since: float, until: float) -> float:
        """Return how long what was done in this time took at most."""
        found = [lasted for at, lasted in self._times if at < until and at + lasted > since]
        return max(found, default=float("nan"))


class Locks:
    """Samples, on PostgreSQL, the locks that this thread's connection holds."""

    def __init__(self) -> None:
        from django.db import connection

        self._ended = threading.Event()
        self._held: dict[tuple[str, str], list[float]] = {}
        self._thread = None
        if connection.vendor == "postgresql":
            connection.ensure_connection()
            pid = connection.connection.info.backend_pid
            self._thread = threading.Thread(target=self._sample, args=[pid], daemon=True)

    def __enter__(self) -> Locks:
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def held(self) -> str:
        """Return the locks, each with the time from its first sample to its last."""
        if self._thread is None:
            return DASH
        return "; ".join(
            f"{relation.removeprefix('agent_sessions_')} {mode.removesuffix('Lock')} "
            f"{(last - first) * 1000:.0f} ms"
            for (relation, mode), (first, last) in sorted(self._held.items())
        )

    def _sample(self, pid: int) -> None:
        from django.db import connection

        with contextlib.closing(connection), connection.cursor() as cursor:
            while not self._ended.wait(SAMPLE):
                cursor.execute(_BLOCKING, [pid])
                now = time.monotonic()
                for relation, mode in cursor.fetchall():
                    self._held.setdefault((relation, mode), [now, now])[1] = now


if __name__ == "__main__":
    sys.exit(main())
