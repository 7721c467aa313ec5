"""``python -m benchmarks.pages``: pages of the API and the admin, and statements of chat requests.

The API's list of 50 sessions and its page of 50 messages are measured against plain Django views
that return the same JSON to the same login. The admin's transcript, of 50 messages and of 10,000,
is measured against the commit ``EARLIER`` of this package, in a process and a database of its own
that takes turns with this one; without Git's history it is skipped. Times are medians of
alternating rounds. It needs PostgreSQL (PGHOST, PGPORT, PGUSER, PGPASSWORD), and Strands.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from django.contrib.auth import get_user_model
from django.db import connection
from django.test import override_settings

from benchmarks import postgresql
from benchmarks.tables import DASH, table, verdict
from django_agent_sessions.models import Session

from . import chats
from .transcripts import DATABASE, LONG, SHORT, Seconds, fill, getter, measured, transcript

EARLIER = "4272807"
"""The last commit that wrote the transcript with templates."""

MOST = {"list of 50 sessions": 1.5, "page of 50 messages": 1.5}
MOST_OF_EARLIER = 0.5
MOST_STATEMENTS = {
    "assistant-cloud: a message": (chats.cloud_append, 6),
    "useChat: a turn": (chats.chat_turn, 12),
}
_ROOT = Path(__file__).resolve().parents[2]

Measure = Callable[[int], Seconds]


def main() -> int:
    """Run it; return 0 if every budget was kept."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pages", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="does everything run? Without budgets of time"
    )
    quick = parser.parse_args().quick
    rounds, times, long = (1, 2, 200) if quick else (5, 20, LONG)
    with postgresql.database(DATABASE), override_settings(ROOT_URLCONF="benchmarks.pages.plain"):
        try:
            fill(long)
            rows = [*_rest(rounds, times), *_admin(rounds, times, long), *_statements()]
        finally:
            connection.close()
    print(
        table(
            [
                *("what", "this package", "against", "measured there"),
                *("ratio", "processor ratio", "budget", "result"),
            ],
            rows,
            "lrlrrrrl",
        )
    )
    # Times of a few requests mean nothing; numbers of statements do.
    judged = [row for row in rows if not quick or row[0] in MOST_STATEMENTS]
    return int(any(row[-1] == verdict(False) for row in judged))


def _rest(rounds: int, times: int) -> Iterator[list[str]]:
    key = Session.objects.get(session_id="texts").pk
    pages = {
        "list of 50 sessions": ("/api/sessions/", "/plain/sessions/"),
        "page of 50 messages": (f"/api/sessions/{key}/messages/", f"/plain/messages/{key}/"),
    }
    for name, urls in pages.items():
        ours, theirs = (getter("person", url) for url in urls)
        shown, expected = (json.loads(get())["results"] for get in (ours, theirs))
        assert _without_times(shown) == _without_times(expected), name
        found = _alternating([partial(measured, get) for get in (ours, theirs)], rounds, times)
        yield _row(name, found, "a plain Django view", MOST[name])


def _without_times(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out the microseconds of times, which the API does not show, and the order of keys."""
    return [
        {key: value[:19] if key.endswith("_at") and value else value for key, value in row.items()}
        for row in rows
    ]


def _admin(rounds: int, times: int, long: int) -> Iterator[list[str]]:
    with _earlier(long) as asked:
        for name, count in (("short", SHORT), ("long", long)):
            what, page = f"transcript of {count:,} messages", transcript(name)
            if asked is None:
                yield [what, f"{measured(page, times).clock * 1000:.1f} ms", *[DASH] * 6]
                continue
            found = _alternating([partial(measured, page), partial(asked, name)], rounds, times)
            yield _row(what, found, f"commit {EARLIER}", MOST_OF_EARLIER)


@contextmanager
def _earlier(long: int) -> Iterator[Callable[[str, int], Seconds] | None]:
    """Run the earlier version in a process; yield ``None`` if its source is not there."""
    with tempfile.TemporaryDirectory() as directory:
        archive = subprocess.run(["git", "archive", EARLIER], cwd=_ROOT, capture_output=True)
        if archive.returncode:
            print(f"The transcript is not compared: the commit {EARLIER} is not in Git's history.")
            yield None
            return
        subprocess.run(["tar", "x", "-C", directory], input=archive.stdout, check=True)
        program = str(Path(__file__).with_name("transcripts.py"))
        environment = os.environ | {
            "PYTHONPATH": directory,
            "SCALE_DATABASE": f"{DATABASE}_earlier",
        }
        with subprocess.Popen(
            [sys.executable, "-P", program, str(long)],
            cwd=directory,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            asked, answers = process.stdin, process.stdout

            def ask(name: str, times: int) -> Seconds:
                print(name, times, file=asked, flush=True)
                return Seconds(*map(float, answers.readline().split()))

            assert answers.readline() == "ready\n"
            try:
                yield ask
            finally:
                asked.close()


def _alternating(measures: list[Measure], rounds: int, times: int) -> list[Seconds]:
    """Measure in turns, each first as often as last; return the medians."""
    for measure in measures:
        measure(max(1, times // 4))
    found: list[list[Seconds]] = [[] for _ in measures]
    for turn in range(rounds):
        for index in sorted(range(len(measures)), reverse=turn % 2 == 1):
            found[index].append(measures[index](times))
    return [
        Seconds(
            statistics.median(one.clock for one in each),
            statistics.median(one.processor for one in each),
        )
        for each in found
    ]


def _row(what: str, found: list[Seconds], against: str, most: float) -> list[str]:
    ours, theirs = found
    ratio = ours.clock / theirs.clock
    return [
        what,
        f"{ours.clock * 1000:.1f} ms",
        against,
        f"{theirs.clock * 1000:.1f} ms",
        f"{ratio:.2f}",
        f"{ours.processor / theirs.processor:.2f}",
        f"≤ {most}",
        verdict(ratio <= most),
    ]


def _statements() -> Iterator[list[str]]:
    person = get_user_model().objects.get(username="person")
    for name, (request, most) in MOST_STATEMENTS.items():
        sent = len(request(person))
        yield [name, f"{sent} statements", *[DASH] * 4, f"≤ {most}", verdict(sent <= most)]


if __name__ == "__main__":
    sys.exit(main())
