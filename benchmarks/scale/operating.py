"""``python -m benchmarks.scale.operating``: operations on 100,000 matching sessions.

One session in a thousand is under legal hold. Each process is killed five times at random, and the
next one continues. Then the counts, the report and the audit trail must be exact. It needs
PostgreSQL and 2 GB.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any

from benchmarks import postgresql
from benchmarks.tables import table

KILLS = 5
KINDS = ("hold", "release", "export", "redact", "delete")
_RECORDED = {
    "hold": "held",
    "release": "released",
    "export": "exported",
    "redact": "redacted",
    "delete": "deleted",
}
_NAME, _SECRET, _HELD = "agent_sessions_scale_operate", "4111 1111 1111 1111", 1000


def main() -> int:
    """Run each kind of operation; return 0 if every count, report and event is right."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale.operating")
    parser.add_argument("--sessions", type=int, default=100_000)
    parser.add_argument("--kinds", nargs="+", default=KINDS, choices=KINDS)
    parser.add_argument("--run", metavar="KEY", help="carry out, in a process of its own")
    given = parser.parse_args()
    if given.run:
        return _run(given.run)
    os.environ["SCALE_DATABASE"] = _NAME
    postgresql.create(_NAME)
    try:
        with tempfile.TemporaryDirectory() as folder:
            os.environ["SCALE_EXPORTS"] = folder
            return _measure(given.sessions, given.kinds)
    finally:
        postgresql.drop(_NAME)


def _measure(count: int, kinds: list[str]) -> int:
    _django()
    user, held = _load(count)
    rows, wrong = [], 0
    for kind in kinds:
        row, problems = _operate(kind, user, count, held)
        rows.append(row)
        wrong += len(problems)
        print(*row, *problems, sep=", ", file=sys.stderr, flush=True)
    head = ["operation", "done", "skipped", "seconds", "kills", "transactions", "longest", "p99"]
    print(table(head, rows))
    return int(bool(wrong))


def _load(count: int) -> tuple[Any, set[str]]:
    from django.contrib.auth import get_user_model
    from django.core.management import call_command
    from django.db import connection

    from django_agent_sessions.models import Session, SessionAgent, SessionMessage

    call_command("migrate", verbosity=0)
    user = get_user_model().objects.create_superuser("officer")
    text = f"my card is {_SECRET}"
    for start in range(0, count, 5000):
        sessions = Session.objects.bulk_create(
            Session(session_id=f"s-{number}", namespace="support", message_count=1)
            for number in range(start, min(start + 5000, count))
        )
        agents = SessionAgent.objects.bulk_create(
            SessionAgent(session=each, agent_id="default", dialect="openai") for each in sessions
        )
        SessionMessage.objects.bulk_create(
            SessionMessage(
                session=agent.session,
                agent=agent,
                message_id=0,
                role="user",
                text=text,
                message={"role": "user", "content": text},
            )
            for agent in agents
        )
    keys = list(Session.objects.order_by("pk").values_list("pk", flat=True)[::_HELD])
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return user, {str(key) for key in keys}


def _operate(kind: str, user: Any, count: int, held: set[str]) -> tuple[list[Any], list[str]]:
    from django_agent_sessions.governance.redaction import Find
    from django_agent_sessions.models import Operation, Session
    from django_agent_sessions.operations import start

    skips = kind in ("redact", "delete")
    Session.objects.filter(pk__in=held).update(legal_hold=skips or kind == "release")
    operation = start(
        kind,
        user=user,
        criteria={"site": "admin", "filters": {"namespace": ["support"]}},
        reason="Case 7",
        scope=Find(_SECRET) if kind == "redact" else None,
    )
    begun = time.monotonic()
    lasted, killed = _run_with_kills(operation, count)
    seconds = time.monotonic() - begun
    operation = Operation.objects.get(pk=operation.pk)
    lasted.sort()
    row = [kind, f"{operation.done:,}", f"{operation.skipped:,}", f"{seconds:.0f} s", killed]
    row += [f"{len(lasted):,}", f"{lasted[-1] * 1000:.0f} ms"]
    row += [f"{lasted[len(lasted) * 99 // 100] * 1000:.0f} ms"]
    return row, _problems(operation, count, held if skips else set())


def _run_with_kills(operation: Any, count: int) -> tuple[list[float], int]:
    from datetime import timedelta

    from django.utils import timezone

    from django_agent_sessions.models import Operation

    lasted: list[float] = []
    killed, handled = 0, 0
    while True:
        share = count // (KILLS + 2)
        stop_at = handled + share + random.randrange(share // 4) if killed < KILLS else None
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.scale.operating", "--run", str(operation.pk)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        for line in process.stdout:
            done = json.loads(line)
            lasted += done["lasted"]
            handled = done["handled"]
            if stop_at is not None and handled >= stop_at:
                # In the middle of the next transaction.
                time.sleep(random.uniform(0, 0.05))
                process.send_signal(signal.SIGKILL)
                break
        if process.wait() == 0:
            return lasted, killed
        if process.returncode != -signal.SIGKILL:
            raise SystemExit("the operation failed; see above")
        killed += 1
        # Instead of a minute's wait for the lease.
        long_ago = timezone.now() - timedelta(hours=1)
        Operation.objects.filter(pk=operation.pk).update(heartbeat_at=long_ago)


def _problems(operation: Any, count: int, held: set[str]) -> list[str]:
    from django_agent_sessions.blobs.export_files import read_export
    from django_agent_sessions.models import AuditEvent, Session, SessionMessage

    kind, recorded = operation.kind, _RECORDED[operation.kind]
    events = AuditEvent.objects.filter(action=recorded, details__via="operation")
    keys = list(events.values_list("session", flat=True))
    expected = {
        "state": (operation.status, "done"),
        "matched": (operation.matched, count),
        "done": (operation.done, count - len(held)),
        "others": ((operation.unchanged, operation.failed), (0, 0)),
        "report": (sorted(operation.report), [[k, "skipped", "held"] for k in sorted(held)]),
        "events": ((len(keys), len(set(keys))), (count - len(held),) * 2),
    }
    if kind in ("hold", "release"):
        now = Session.objects.filter(legal_hold=True).count()
        expected["held"] = (now, count if kind == "hold" else 0)
    if kind == "export":
        lines = sum(part.count(b"\n") for part in read_export(operation))
        expected["lines"] = (lines, count)
    if kind == "redact":
        left = SessionMessage.objects.filter(text__contains=_SECRET)
        expected["left"] = ({str(k) for k in left.values_list("session", flat=True)}, held)
    if kind == "delete":
        expected["left"] = ({str(k) for k in Session.objects.values_list("pk", flat=True)}, held)
    return [f"WRONG: {kind}, {name}" for name, (found, right) in expected.items() if found != right]


def _run(key: str) -> int:
    _django()
    from uuid import UUID

    from django.contrib import admin
    from django.db import connection

    from django_agent_sessions.models import Operation
    from django_agent_sessions.operations import run

    from .deleting import timed_transactions

    admin.autodiscover()
    connection.ensure_connection()
    with timed_transactions() as lasted:

        def show(operation: Operation) -> None:
            print(json.dumps({"handled": operation.handled, "lasted": lasted}), flush=True)
            lasted.clear()

        ran = run(UUID(key), progress=show)
    return 0 if ran is not None and ran.status == "done" else 1


def _django() -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.scale.settings"
    import django

    django.setup()


if __name__ == "__main__":
    sys.exit(main())
