"""``python -m benchmarks.scale.pruning``: retention of ten million messages, a tenth of them due.

Some sessions that are due are under legal hold, or have a later date of their own; some others have
an earlier one. While another process appends, the pruner is killed five times and run again. Then
exactly the sessions that were due must be gone. It needs PostgreSQL and 12 GB.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from datetime import datetime
from typing import Any

from benchmarks.tables import table

from .growth import LARGE, QUIET, Writer
from .process import Process

KILLS = 5
_AGAIN = 3
_NAME = "agent_sessions_scale_prune"


def main() -> int:
    """Run the measurement; return 0 if exactly the sessions that were due are gone."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale.pruning", description=__doc__)
    parser.add_argument("--messages", type=int, default=LARGE)
    parser.add_argument("--run", metavar="NOW", help="prune, in a process of its own")
    given = parser.parse_args()
    if given.run:
        return _run(datetime.fromisoformat(given.run))
    os.environ["SCALE_DATABASE"] = _NAME
    process = Process(_NAME, given.messages, "--load")
    try:
        process.answer()
        return _measure()
    finally:
        process.close()


def _measure() -> int:
    _django()
    from django.utils import timezone

    now = timezone.now()
    due, held = _plan(now)
    writer = Writer(_NAME)
    writer.start()
    time.sleep(QUIET)
    begun = time.monotonic()
    transactions, killed = _prune_with_kills(now, due)
    ended = time.monotonic()
    writer.stop()
    problems = _problems()
    head = ["sessions due", "of messages", "seconds", "transactions", "longest", "kills"]
    head += ["others' append, p95 before", "during"]
    waits = writer.p95(until=begun), writer.p95(since=begun, until=ended)
    row = [f"{due:,}", f"{_count('SELECT sum(n) FROM pruning WHERE due'):,}"]
    row += [f"{ended - begun:.1f} s", f"{len(transactions):,}"]
    row += [f"{max(transactions) * 1000:.0f} ms", str(killed)]
    print(table(head, [[*row, *(f"{seconds * 1000:.1f} ms" for seconds in waits)]]))
    print(
        f"\n{held:,} sessions under legal hold that were due are untouched" if not problems else ""
    )
    for problem, count in problems.items():
        print(f"WRONG: {count:,} {problem}")
    return int(bool(problems) or killed < KILLS)


def _plan(now: datetime) -> tuple[int, int]:
    """Hold and date some sessions, and write down by plain SQL which are due."""
    from .settings import IDLE

    cutoff = now - IDLE
    # One in twenty by its place in time, on both sides of the line.
    numbered = "(SELECT id, row_number() OVER (ORDER BY last_activity_at) AS n {0}) AS numbered"
    numbered = numbered.format("FROM agent_sessions_session")
    change = f"UPDATE agent_sessions_session s SET {{0}} FROM {numbered} WHERE s.id = numbered.id"
    _execute(f"{change.format('legal_hold = true')} AND n %% 20 = 1")
    _execute(f"{change.format('expires_at = %s')} AND n %% 20 = 2", [now.replace(year=2100)])
    _execute(f"{change.format('expires_at = %s')} AND n %% 2000 = 3", [cutoff])
    _execute(
        "CREATE TABLE pruning AS SELECT s.id, count(m.id) AS n, legal_hold, legal_hold = false AND "
        "(expires_at <= %s OR expires_at IS NULL AND last_activity_at <= %s) AS due "
        "FROM agent_sessions_session s LEFT JOIN agent_sessions_sessionmessage m "
        "ON m.session_id = s.id GROUP BY s.id",
        [now, cutoff],
    )
    held = "SELECT count(*) FROM pruning JOIN agent_sessions_session USING (id) "
    due = _count("SELECT count(*) FROM pruning WHERE due")
    return due, _count(f"{held} WHERE pruning.legal_hold AND last_activity_at <= %s", [cutoff])


def _prune_with_kills(now: datetime, due: int) -> tuple[list[float], int]:
    """Prune, and kill the process five times, each time after about a seventh of the sessions."""
    transactions: list[float] = []
    killed = 0
    while True:
        stop_at = due // (KILLS + 2) + random.randrange(50) if killed < KILLS else None
        pruner = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.scale.pruning", "--run", now.isoformat()],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert pruner.stdout is not None
        for line in pruner.stdout:
            done: dict[str, Any] = json.loads(line)
            transactions += done["transactions"]
            if stop_at is not None and done["sessions"] >= stop_at:
                # In the middle of the next transaction.
                time.sleep(random.uniform(0, 0.05))
                pruner.send_signal(signal.SIGKILL)
                break
        if pruner.wait() == 0:
            return transactions, killed
        if pruner.returncode not in (-signal.SIGKILL, _AGAIN):
            raise SystemExit("the pruner failed; see above")
        killed += pruner.returncode == -signal.SIGKILL


def _problems() -> dict[str, int]:
    """Return the numbers of rows that should not be as they are."""
    sessions = "SELECT count(*) FROM pruning LEFT JOIN agent_sessions_session s USING (id) WHERE "
    messages = (
        "SELECT count(*) FROM pruning LEFT JOIN (SELECT session_id AS id, count(*) AS n "
        "FROM agent_sessions_sessionmessage GROUP BY 1) now USING (id) "
        "WHERE coalesce(now.n, 0) <> CASE WHEN due THEN 0 ELSE pruning.n END"
    )
    trail = (
        "SELECT count(*) FROM pruning LEFT JOIN (SELECT jsonb_array_elements_text("
        "details->'sessions')::uuid AS id FROM agent_sessions_auditevent WHERE action = 'deleted') "
        "told USING (id) WHERE due <> (told.id IS NOT NULL)"
    )
    found = {
        "sessions that were due are there": _count(f"{sessions} due AND s.id IS NOT NULL"),
        "sessions that were not due are gone": _count(f"{sessions} NOT due AND s.id IS NULL"),
        "sessions have other messages than they should": _count(messages),
        "sessions are not in the audit trail as they should": _count(trail),
    }
    return {problem: count for problem, count in found.items() if count}


def _run(now: datetime) -> int:
    """Prune in this process; print after each transaction how long those since the last took."""
    _django()
    from django.db import connection

    from django_agent_sessions.governance.retention import PruneReport, prune

    from .deleting import timed_transactions

    # A new connection begins with no transaction that could be timed.
    connection.ensure_connection()
    with timed_transactions() as lasted:

        def show(report: PruneReport) -> None:
            done = {"sessions": report.sessions.total(), "transactions": lasted}
            print(json.dumps(done), flush=True)
            lasted.clear()

        report = prune(now=now, actor="benchmark", progress=show)
    # What the server still held locked for a killed process is left to the next run.
    return _AGAIN if report.skipped else 0


def _django() -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.scale.settings"
    import django

    django.setup()


def _execute(statement: str, parameters: list[Any] | None = None) -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(statement, parameters or [])


def _count(statement: str, parameters: list[Any] | None = None) -> int:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return int(cursor.fetchone()[0])


if __name__ == "__main__":
    sys.exit(main())
