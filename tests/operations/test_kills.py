"""Operations whose processes are killed at any point go on, and their report is exact."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pytest

from django_agent_sessions.blobs.export_files import read_export
from django_agent_sessions.governance import legal_hold
from django_agent_sessions.models import AuditEvent, Operation, Session, SessionMessage
from tests.processes import start

from .making import SECRET, begin, expire, officer, storing_exports, talk

pytestmark = pytest.mark.django_db(transaction=True)

KILLS = 5
RECORDED = {"hold": "held", "delete": "deleted", "redact": "redacted", "export": "exported"}


def run_with_kills(operation: Operation, after: int, folder: Path) -> Operation:
    """Kill the process KILLS times, a moment after some batches; then let it finish."""
    chance = random.Random(operation.kind)
    for _ in range(KILLS):
        process = start("tests.operations.worker", operation.pk, folder)
        for _ in range(chance.randrange(1, after)):
            assert process.stdout.readline().strip().isdigit()
        time.sleep(chance.random() / 50)
        process.kill()
        process.wait(20)
        process.communicate(timeout=20)
        expire(operation)
    operation.refresh_from_db()
    assert operation.status == "running"
    assert operation.matched is not None
    assert 0 < operation.handled < operation.matched
    process = start("tests.operations.worker", operation.pk, folder)
    out, err = process.communicate(timeout=200)
    assert out.splitlines()[-1:] == ["done"], err
    operation.refresh_from_db()
    return operation


@pytest.mark.parametrize(
    ("kind", "count", "after"),
    [("hold", 2000, 15), ("delete", 2000, 7), ("redact", 150, 20), ("export", 600, 5)],
)
def test_five_kills_neither_double_nor_leave_out_a_session(
    kind, count, after, settings, tmp_path, other_process
):
    for name, value in storing_exports(tmp_path).items():
        setattr(settings, name, value)
    sessions = talk(count)
    chosen = random.Random(7).sample(sessions, 20)
    if kind in ("delete", "redact"):
        for session in chosen:
            legal_hold.hold(session.pk, reason="Case 7")
    operation = begin(kind, officer())

    ran = run_with_kills(operation, after, tmp_path)

    held = sorted(str(each.pk) for each in chosen) if kind in ("delete", "redact") else []
    assert (ran.matched, ran.done) == (count, count - len(held))
    assert (ran.unchanged, ran.failed, ran.skipped) == (0, 0, len(held))
    assert sorted(ran.report) == [[key, "skipped", "held"] for key in held]
    events = AuditEvent.objects.filter(action=RECORDED[kind], details__via="operation")
    recorded = list(events.values_list("session", flat=True))
    assert len(recorded) == len(set(recorded)) == count - len(held)
    assert AuditEvent.objects.filter(action="operation", details__state="done").count() == 1
    if kind == "delete":
        assert sorted(str(key) for key in Session.objects.values_list("pk", flat=True)) == held
    if kind == "redact":
        left = SessionMessage.objects.filter(text__contains=SECRET)
        assert sorted(str(key) for key in left.values_list("session", flat=True)) == held
    if kind == "export":
        lines = b"".join(read_export(ran)).decode().splitlines()
        found = [json.loads(line)["session"]["id"] for line in lines]
        assert found == [str(each.pk) for each in sessions]
