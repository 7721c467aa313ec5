"""``python -m benchmarks.scale``: the admin's pages at a hundred times the data, in one run.

Two sites, one with 10,000 messages in 200 sessions and one with 1,000,000 in 20,000, are asked in
turns for the same pages. It needs PostgreSQL (PGHOST, PGPORT, PGUSER, PGPASSWORD) and 5 GB.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from typing import Any, LiteralString

import psycopg
from psycopg import sql

SMALL, LARGE = 10_000, 1_000_000
ROUNDS = 15
ALLOWED = 1.5


class Site:
    """A site in a process of its own, on a database of its own."""

    def __init__(self, messages: int) -> None:
        self.name = f"agent_sessions_scale_{messages}_{os.getpid()}"
        _administrate("CREATE DATABASE {}", self.name)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.scale.server", str(messages)],
            env={**os.environ, "SCALE_DATABASE": self.name},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.sessions: dict[str, str] = {}

    def loaded(self) -> None:
        """Waits until it has loaded its messages."""
        self.sessions = self._line()

    def get(self, page: str, **options: Any) -> dict[str, Any]:
        """Asks for a page."""
        assert self._process.stdin is not None
        url = page.format(**self.sessions)
        self._process.stdin.write(json.dumps({"url": url, **options}) + "\n")
        self._process.stdin.flush()
        return self._line()

    def _line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"the site of {self.name} ended; see above")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """Ends it, and drops its database."""
        self._process.kill()
        self._process.wait()
        _administrate("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name)


PAGES = {
    "list": "/admin/agent_sessions/session/",
    "search, rare word": "/admin/agent_sessions/session/?q=xylophone",
    "search, common word": "/admin/agent_sessions/session/?q=invoice",
    "search, session id": "/admin/agent_sessions/session/?q=session-77",
    "transcript, 50 messages": "/admin/agent_sessions/session/{usual}/change/",
    "transcript, 10,000 messages": "/admin/agent_sessions/session/{long}/change/",
    "transcript, one of 36 MB": "/admin/agent_sessions/session/{large}/change/",
    "usage": "/admin/agent_sessions/usagerollup/?days=90",
}


def main() -> int:
    """Runs the measurement."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--messages", type=int, default=LARGE, help="of the larger site")
    arguments = parser.parse_args()
    sites = [Site(SMALL), Site(arguments.messages)]
    try:
        for site in sites:
            site.loaded()
        return _report(sites, arguments.messages)
    finally:
        for site in sites:
            site.close()


def _report(sites: list[Site], messages: int) -> int:
    print(f"| page | statements | {SMALL:,} | {messages:,} | ratio | in the database | |")
    print("|---|---|---|---|---|---|---|")
    failed = 0
    for name, page in PAGES.items():
        rounds = [[site.get(page) for site in sites] for _ in range(ROUNDS + 3)][3:]
        few, many = zip(*rounds, strict=True)
        times = [statistics.median(one["seconds"] for one in found) for found in (few, many)]
        inside = [statistics.median(one["database"] for one in found) for found in (few, many)]
        counts = {one["statements"] for one in (*few, *many)}
        passed = times[1] <= ALLOWED * times[0] and len(counts) == 1
        failed += not passed
        said = "/".join(map(str, sorted(counts)))
        print(
            f"| {name} | {said} | {times[0] * 1000:.1f} ms | {times[1] * 1000:.1f} ms "
            f"| {times[1] / times[0]:.2f} | {inside[0] * 1000:.0f} → {inside[1] * 1000:.0f} ms "
            f"| {'pass' if passed else 'MISS'} |",
            flush=True,
        )
    opened = sites[1].get(PAGES["transcript, one of 36 MB"], memory=True)
    print(
        f"\nThe page of the session with the message of 36 MB is {opened['bytes']:,} bytes; making "
        f"it took at most {opened['peak'] / 1e6:.1f} MB of memory."
    )
    return int(bool(failed))


def _administrate(statement: LiteralString, database: str) -> None:
    with psycopg.connect(
        host=os.environ.get("PGHOST", "127.0.0.1"),
        port=os.environ.get("PGPORT", "5432"),
        user=os.environ.get("PGUSER", "postgres"),
        password=os.environ.get("PGPASSWORD", ""),
        dbname="postgres",
        autocommit=True,
    ) as connection:
        connection.execute(sql.SQL(statement).format(sql.Identifier(database)))


if __name__ == "__main__":
    sys.exit(main())
