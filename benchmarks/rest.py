"""``python -m benchmarks.rest``: the first page of a session list, and the thousandth.

One person has 100,000 sessions, 100 others have 300,000 together, and one more has 100,000 that are
older than all of these. Pages are asked for in turns, by an id (``after=``) and by the cursor that
the page before gave. It needs PostgreSQL (PGHOST, PGPORT, PGUSER, PGPASSWORD) and makes a database
of its own.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

NAME = os.environ.setdefault("SCALE_DATABASE", f"agent_sessions_rest_{os.getpid()}")
os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.scale.settings"

import django

django.setup()

from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import connection, reset_queries
from django.test import Client
from django.test.utils import CaptureQueriesContext

from benchmarks import postgresql
from benchmarks.tables import table, verdict
from django_agent_sessions.models import Session

LIMIT, PAGE = 100, 1000
ROUNDS = 101
ALLOWED = 1.2
OTHERS = 100
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
    """Run it; return 0 if every page kept its bound, and was read from the index unsorted."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rest", description=__doc__)
    parser.add_argument("--sessions", type=int, default=100_000, help="of the one person")
    count = parser.parse_args().sessions
    with postgresql.database(NAME):
        try:
            person, sleeper = _load(count)
            client, asleep = Client(), Client()
            client.force_login(person)
            asleep.force_login(sleeper)
            return _report(client, asleep, person, min(PAGE, count // LIMIT))
        finally:
            connection.close()


def _load(count: int) -> tuple[Any, Any]:
    """Make a person with so many sessions, and one whose sessions are older than all others."""
    call_command("migrate", verbosity=0)
    random.seed(count)
    users: Any = get_user_model().objects
    person, sleeper = (users.create(username=name) for name in ("person", "sleeper"))
    others = [users.create(username=f"other{number}") for number in range(OTHERS)]
    rows = _sessions(count, person, sleeper, others)
    while batch := list(islice(rows, 2000)):
        Session.objects.bulk_create(batch)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
    return person, sleeper


def _sessions(count: int, person: Any, sleeper: Any, others: list[Any]) -> Iterator[Session]:
    now = datetime.now(UTC)
    for number in range(count * 5):
        owner = random.choice(others) if number % 4 else person
        if number >= count * 4:
            owner = sleeper
        # Some at the same moment, so that the key decides.
        moment = now - timedelta(seconds=number // 8 * 8)
        yield Session(
            session_id=f"session-{number}",
            owner=owner,
            title=f"About {number}",
            metadata={"model": "large", "tags": ["one", "two"]},
            message_count=10,
            created_at=moment,
            updated_at=moment,
            last_activity_at=moment,
        )


def _report(client: Client, asleep: Client, person: Any, number: int) -> int:
    # The whole list, as the API never reads it.
    listed = Session.objects.filter(owner=person).order_by("-last_activity_at", "-id")
    keys = [str(key) for key in listed.values_list("pk", flat=True)]
    end = (number - 1) * LIMIT
    # The page that stands before the thousandth gives the cursor of it.
    before = _page(client, f"{LIST}&after={keys[end - LIMIT - 1]}")
    assert before.next is not None
    pages = {
        "page 1": (client, LIST),
        f"page {number:,}, by `after`": (client, f"{LIST}&after={keys[end - 1]}"),
        f"page {number:,}, by cursor": (client, before.next),
        "page 1, all others newer": (asleep, LIST),
    }
    for name, (who, url) in pages.items():
        start = 0 if url == LIST else end
        assert who is asleep or _page(who, url).rows == keys[start : start + LIMIT], name
    rounds = []
    for turn in range(ROUNDS + 5):
        # Each is first as often as last, so that none always meets the caches of another.
        names = list(pages)[turn % len(pages) :] + list(pages)[: turn % len(pages)]
        rounds.append({name: _page(*pages[name]) for name in names})
    rows = [_row(name, rounds[5:]) for name in pages]
    head = [f"page of {LIMIT}", "statements", "time", "ratio", "in the database", "read by", ""]
    print(table(head, rows, "lrrrrll"))
    return int(any(row[-1] != verdict(True) for row in rows))


def _row(name: str, rounds: list[dict[str, Figures]]) -> list[str]:
    first = statistics.median(one["page 1"].seconds for one in rounds)
    taken = statistics.median(one[name].seconds for one in rounds)
    inside = statistics.median(one[name].inside for one in rounds)
    counts = sorted({one[name].statements for one in rounds})
    plan = _plan(rounds[-1][name].sql)
    return [
        name,
        "/".join(map(str, counts)),
        f"{taken * 1000:.1f} ms",
        f"{taken / first:.2f}",
        f"{inside * 1000:.1f} ms",
        f"`{plan}`",
        verdict(taken <= ALLOWED * first and plan == INDEX and len(counts) == 1),
    ]


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
    """Name the one index that a statement is read from; or tell what else is done."""
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


if __name__ == "__main__":
    sys.exit(main())
