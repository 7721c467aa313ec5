"""Talks to agents in each server and queue, on each database, and compares journals with rows.

    python -m benchmarks.contexts --database sqlite --only gunicorn

A text is acknowledged when its answer has arrived, in a transaction after its commit. It must then
be in the database once, with the row that the agent's tool wrote. Of a request that fails in a
transaction nothing may be there. The databases and the broker are started for the run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, astuple
from pathlib import Path
from typing import Any

from tabulate import tabulate

from benchmarks.servers import (
    MariaDBServer,
    PostgreSQLServer,
    end_on_sigterm,
    free_port,
    scratch,
)

from .checking import Outcome, compare

DATABASES = ("postgresql", "sqlite", "mariadb")
HEADERS = (
    *("context", "database", "acknowledged", "rows", "lost", "doubled"),
    *("rolled back", "escaped", "failed", "seconds"),
)
_MARK = "outcome: "
_OPTIONS = {
    "transaction_mode": "IMMEDIATE",
    "timeout": 20,
    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
}


@contextmanager
def database(vendor: str, directory: Path) -> Iterator[dict[str, Any]]:
    """An empty database of a server of its own, or a file."""
    if vendor == "sqlite":
        name = str(directory / "contexts.sqlite3")
        yield {"ENGINE": "django.db.backends.sqlite3", "NAME": name, "OPTIONS": _OPTIONS}
        return
    kind = PostgreSQLServer if vendor == "postgresql" else MariaDBServer
    with kind(directory / vendor) as server:
        server.create("contexts")
        yield server.django("contexts")


def run(vendor: str, wanted: list[str], directory: Path) -> None:
    """Run the contexts on a database, and print the outcome of each."""
    import django

    django.setup()
    from django.core.management import call_command

    from .queues import QUEUES
    from .servers import SERVERS

    call_command("migrate", verbosity=0, run_syncdb=True)
    for name in [*SERVERS, *QUEUES]:
        if not any(part in name for part in wanted):
            continue
        try:
            outcome = run_context(name, vendor, directory)
        except Exception as error:
            # The other contexts are still run; this one has not held.
            print(f"{name}: {error}", file=sys.stderr, flush=True)
            outcome = Outcome(name, vendor, *[0] * 6, failed=1, seconds=0)
        print(_MARK + json.dumps(asdict(outcome)), flush=True)


def run_context(name: str, vendor: str, directory: Path) -> Outcome:
    from django.db import connections

    from django_agent_sessions.models import Session, SessionMessage

    from .driving import drive
    from .models import Note
    from .queues import QUEUES
    from .servers import SERVERS, served

    Session.objects.all().delete()
    Note.objects.all().delete()
    connections.close_all()
    began = time.monotonic()
    context = SERVERS.get(name)
    if context is None:
        journal = QUEUES[name](dict(os.environ), directory)
    else:
        port = free_port()
        with served(context, port, os.environ, directory / "server.log") as server:
            journal = drive(context, port, server)
        if journal.failed and not context.refuses:
            print(f"{name}:\n{server.last_lines()}", file=sys.stderr, flush=True)
    for error in journal.errors[:3]:
        print(f"{name}: {error}", file=sys.stderr, flush=True)
    said = Counter(
        SessionMessage.objects.filter(role="user")
        .exclude(text="")
        .exclude(text="before the fork")
        .values_list("text", flat=True)
    )
    noted = Counter(Note.objects.exclude(text="before the fork").values_list("text", flat=True))
    rows, lost, doubled, escaped = compare(journal, said, noted)
    refused = all("HTTP 503" in error for error in journal.errors)
    allowed = context is not None and (context.reloads or (context.refuses and refused))
    return Outcome(
        name,
        vendor,
        len(journal.acknowledged),
        rows,
        lost,
        doubled,
        len(journal.undone),
        escaped,
        len(journal.failed),
        round(time.monotonic() - began, 1),
        allowed_failures=allowed,
    )


def main() -> int:
    """Runs each database in a process of its own, and prints the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.contexts", description=__doc__)
    parser.add_argument("--database", choices=[*DATABASES, "all"], default="all")
    parser.add_argument("--only", action="append", help="a part of a context's name")
    parser.add_argument("--in", dest="directory", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    end_on_sigterm()
    wanted = asked.only or [""]
    if asked.directory:
        run(asked.database, wanted, Path(asked.directory))
        return 0
    outcomes: list[Outcome] = []
    for vendor in DATABASES if asked.database == "all" else [asked.database]:
        with scratch() as directory, database(vendor, directory) as entry:
            outcomes += _run_apart(vendor, wanted, directory, entry)
    table = [astuple(outcome)[: len(HEADERS)] for outcome in outcomes]
    print(tabulate(table, HEADERS, tablefmt="github"))
    broken = [f"{one.context} on {one.database}" for one in outcomes if not one.holds]
    print(f"does not hold: {', '.join(broken)}" if broken else "every journal equals the rows")
    return 1 if broken or not outcomes else 0


def _run_apart(
    vendor: str, wanted: list[str], directory: Path, entry: dict[str, Any]
) -> Iterator[Outcome]:
    environment = {
        "DJANGO_SETTINGS_MODULE": "benchmarks.contexts.settings",
        "CONTEXTS_DATABASE": json.dumps(entry),
    }
    only = [part for each in wanted for part in ("--only", each)]
    command = ["-m", "benchmarks.contexts", "--database", vendor, "--in", str(directory), *only]
    with subprocess.Popen(
        [sys.executable, *command],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(_MARK):
                outcome = Outcome(**json.loads(line.removeprefix(_MARK)))
                print(f"{outcome.context} on {vendor}: {outcome.seconds} s", flush=True)
                yield outcome


if __name__ == "__main__":
    sys.exit(main())
