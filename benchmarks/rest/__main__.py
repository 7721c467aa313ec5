"""``python -m benchmarks.rest``: the first page of a session list, and the thousandth.

One person has 100,000 sessions, 100 others have 300,000 together, and one more has 100,000 that are
older than all of these. Pages are asked for in turns, by an id (``after=``) and by the cursor that
the page before gave. It needs PostgreSQL (PGHOST, PGPORT, PGUSER, PGPASSWORD) and makes a database
of its own.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from dataclasses import dataclass
from typing import Any

NAME = os.environ.setdefault("REST_DATABASE", f"agent_sessions_rest_{os.getpid()}")
os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.rest.settings"

import django
import psycopg
from psycopg import sql

django.setup()

from django.db import connection, reset_queries
from django.test import Client
from django.test.utils import CaptureQueriesContext

from benchmarks.rest import loading

LIMIT, PAGE = 100, 1000
ROUNDS = 101
ALLOWED = 1.2
INDEX = "agent_sessions_session_mine"
LIST = f"/api/sessions/?limit={LIMIT}"


@dataclass
class Figures:
    """What one page took."""

    seconds: float
    inside: float
    statements: int
    rows: list[str]
    next: str | None
    sql: str
    """The statement that read the page."""


def main() -> int:
    """Runs the measurement."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rest", description=__doc__)
    parser.add_argument("--sessions", type=int, default=100_000, help="of the one person")
    arguments = parser.parse_args()
    _administrate("CREATE DATABASE {}")
    try:
        person, sleeper = loading.load(arguments.sessions)
        client, asleep = Client(), Client()
        client.force_login(person)
        asleep.force_login(sleeper)
        number = min(PAGE, arguments.sessions // LIMIT)
        return _report(client, asleep, loading.places(person, LIMIT, number))
    finally:
        connection.close()
        _administrate("DROP DATABASE IF EXISTS {} WITH (FORCE)")


def _report(client: Client, asleep: Client, places: loading.Places) -> int:
    # The page that stands before the thousandth gives the cursor of it.
    before = _page(client, f"{LIST}&after={places.before_previous}")
    assert before.next is not None
    pages = {
        "page 1": (client, LIST),
        f"page {places.number:,}, by `after`": (client, f"{LIST}&after={places.previous}"),
        f"page {places.number:,}, by cursor": (client, before.next),
        "page 1, all others newer": (asleep, LIST),
    }
    for name, (who, url) in pages.items():
        found = _page(who, url).rows
        assert who is asleep or found == (places.first if url == LIST else places.last), name
    rounds = []
    for number in range(ROUNDS + 5):
        # Each is first as often as last, so that none always meets the caches of another.
        first_one = number % len(pages)
        names = list(pages)[first_one:] + list(pages)[:first_one]
        rounds.append({name: _page(*pages[name]) for name in names})
    rounds = rounds[5:]
    first = statistics.median(one["page 1"].seconds for one in rounds)
    print(f"| page of {LIMIT} | statements | time | ratio | in the database | read by | |")
    print("|---|---|---|---|---|---|---|")
    failed = 0
    for name in pages:
        taken = statistics.median(one[name].seconds for one in rounds)
        inside = statistics.median(one[name].inside for one in rounds)
        counts = sorted({one[name].statements for one in rounds})
        plan = _plan(rounds[-1][name].sql)
        passed = taken <= ALLOWED * first and plan == INDEX and len(counts) == 1
        failed += not passed
        print(
            f"| {name} | {'/'.join(map(str, counts))} | {taken * 1000:.1f} ms "
            f"| {taken / first:.2f} | {inside * 1000:.1f} ms | `{plan}` "
            f"| {'pass' if passed else 'MISS'} |"
        )
    return int(bool(failed))


def _page(client: Client, url: str) -> Figures:
    reset_queries()
    started = time.perf_counter()
    with CaptureQueriesContext(connection) as captured:
        answer: Any = client.get(url)
    seconds = time.perf_counter() - started
    assert answer.status_code == 200, (url, answer.content)
    page = answer.json()
    asked = captured.captured_queries
    return Figures(
        seconds,
        sum(float(query["time"]) for query in asked),
        len(asked),
        [row["id"] for row in page["results"]],
        page["next"],
        next(query["sql"] for query in reversed(asked) if "ORDER BY" in query["sql"]),
    )


def _plan(statement: str) -> str:
    """Names the one index that a statement is read from; or says what else is done."""
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}")
        (plan,) = cursor.fetchone()
    nodes, waiting = [], [plan[0]["Plan"]]
    while waiting:
        node = waiting.pop()
        nodes.append(node)
        # The key of the owner is a subquery of its own.
        inner = node.get("Plans", [])
        waiting += [one for one in inner if one["Parent Relationship"] != "InitPlan"]
    kinds = [node["Node Type"] for node in nodes]
    skipped = sum(node.get("Rows Removed by Filter", 0) for node in nodes)
    if kinds == ["Limit", "Index Scan"] and skipped <= 1:
        return str(nodes[1]["Index Name"])
    return f"{' < '.join(kinds)}, {skipped} rows skipped"


def _administrate(statement: Any) -> None:
    with psycopg.connect(
        host=os.environ.get("PGHOST", "127.0.0.1"),
        port=os.environ.get("PGPORT", "5432"),
        user=os.environ.get("PGUSER", "postgres"),
        password=os.environ.get("PGPASSWORD", ""),
        dbname="postgres",
        autocommit=True,
    ) as server:
        server.execute(sql.SQL(statement).format(sql.Identifier(NAME)))


if __name__ == "__main__":
    sys.exit(main())
