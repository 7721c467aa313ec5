"""``python -m benchmarks.importing``: how fast an OpenAI SQLite file comes in, in what memory.

It makes a file of ``SQLiteSession`` with the real SDK's tables, imports it in a process of its own
into a new database (SQLite, or PostgreSQL: PGHOST, PGPORT, PGUSER, PGPASSWORD), and drops all of it
again. It needs Linux, which tells in ``/proc`` what a process takes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from . import memory
from .tables import table

_WORDS = "the quick brown fox jumps over the lazy dog and does it again "


def main() -> int:
    """Runs the measurement."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.importing", description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--sessions", type=int, default=1)
    parser.add_argument("--database", action="append", choices=["postgresql", "sqlite"])
    parser.add_argument("--import-into", help=argparse.SUPPRESS)
    parser.add_argument("--file", help=argparse.SUPPRESS)
    arguments = parser.parse_args()

    os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.settings"
    import django

    django.setup()
    if arguments.import_into:
        # In the process that is measured: of all that it takes, SDK and tests are no part.
        print(json.dumps(_imported(arguments.import_into, arguments.file)))
        return 0
    from . import databases, settings

    file = Path(settings.DIRECTORY) / "openai.db"
    asyncio.run(_fill(file, arguments.messages, arguments.sessions))
    print(
        f"{arguments.messages} messages in {arguments.sessions} sessions, "
        f"{file.stat().st_size / 1e6:.0f} MB; load before: {os.getloadavg()[0]:.1f}\n"
    )
    rows = []
    for alias in arguments.database or ["sqlite", "postgresql"]:
        with databases.prepared(alias):
            found = _measured(alias, file)
            rate = found["messages"] / found["seconds"]
            figures = [found["messages"], f"{found['seconds']:.1f}", f"{rate:.0f}"]
            peaks = [f"{found[name] / 1e6:.0f} MB" for name in ("peak", "start")]
            rows.append([databases.version(alias), *figures, *peaks])
    head = ["database", "messages", "seconds", "messages a second", "peak RSS"]
    print(table([*head, "of it at the start"], rows))
    return 0


async def _fill(file: Path, messages: int, sessions: int) -> None:
    from agents import SQLiteSession

    each = messages // sessions
    for number in range(sessions):
        session = SQLiteSession(f"session-{number}", file)
        for start in range(0, each, 1000):
            await session.add_items(
                [_item(place) for place in range(start, min(start + 1000, each))]
            )
        session.close()


def _item(place: int) -> Any:
    text = _WORDS * (1 + place % 8)
    if place % 2:
        content = [{"type": "output_text", "text": f"{place} {text}", "annotations": []}]
        return {
            "id": f"msg_{place}",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": content,
        }
    return {"role": "user", "content": f"{place} {text}"}


def _measured(alias: str, file: Path) -> dict[str, Any]:
    from . import settings

    command = [sys.executable, "-m", "benchmarks.importing", "--import-into", alias]
    given = settings.DATABASES[alias]
    done = subprocess.run(
        [*command, "--file", str(file)],
        env={**os.environ, "BENCHMARK_DATABASE": str(given["NAME"])},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _imported(alias: str, file: str) -> dict[str, Any]:
    from django.db import connections

    from django_agent_sessions.interchange import import_sessions
    from django_agent_sessions.interchange.source_registry import open_source

    connections[alias].settings_dict["NAME"] = os.environ["BENCHMARK_DATABASE"]
    source = open_source("openai-sqlite", file)
    connections[alias].ensure_connection()
    start = memory.read("VmHWM")
    began = time.perf_counter()
    report = import_sessions(source, using=alias)
    seconds = time.perf_counter() - began
    return {
        "messages": report.messages,
        "seconds": seconds,
        "peak": memory.read("VmHWM"),
        "start": start,
    }


if __name__ == "__main__":
    sys.exit(main())
