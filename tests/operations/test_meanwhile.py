"""Operations beside erasures and redactions, and deletions of owners and of who started them."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import BytesIO
from typing import Any

import pytest

from django_agent_sessions import operations
from django_agent_sessions.blobs.export_files import PART_BYTES, read_export, write_parts
from django_agent_sessions.db import retries
from django_agent_sessions.governance import reviews
from django_agent_sessions.governance.erasure import erase
from django_agent_sessions.governance.operation_erasure import delete_exports_of
from django_agent_sessions.governance.redaction import Find, redact
from django_agent_sessions.models import AuditEvent, Note, Operation, Session, SessionMessage
from django_agent_sessions.operations import runner, work
from django_agent_sessions.values.ids import new_id
from tests.admin.people import grant

from .making import SECRET, begin, carry_out, officer, storing_exports, talk

pytestmark = pytest.mark.django_db(transaction=True)

KINDS = ["export", "hold", "release", "redact", "delete"]


@pytest.fixture(autouse=True)
def storage(settings, tmp_path):
    for name, value in storing_exports(tmp_path).items():
        setattr(settings, name, value)
    return tmp_path


@pytest.fixture
def user():
    return officer()


@pytest.fixture
def after_reading(monkeypatch) -> Callable[[Callable[[], Any]], None]:
    """Does something once, after an export has written a batch and before it counts."""

    def define(step: Callable[[], Any]) -> None:
        steps = [step]

        def write(*args: Any) -> Any:
            yield from write_parts(*args)
            if steps:
                steps.pop()()

        monkeypatch.setattr(work, "write_parts", write)

    return define


def owned_by(owner: Any, *sessions: Session) -> None:
    Session.objects.filter(pk__in=[session.pk for session in sessions]).update(owner=owner)


def parts(folder: Any) -> int:
    return sum(path.is_file() for path in folder.rglob("*"))


def content(operation: Operation) -> str:
    return b"".join(read_export(operation)).decode()


def exported(operation: Operation) -> list[str]:
    return [json.loads(line)["session"]["id"] for line in content(operation).splitlines()]


def test_an_export_has_nothing_of_who_is_erased_while_it_runs(user, ada, storage, after_reading):
    hers, other = talk(2)
    owned_by(ada, hers)
    after_reading(lambda: erase(ada, reason="Request 31"))

    ran = carry_out(begin("export", user))

    assert (ran.status, ran.done, ran.skipped) == ("done", 1, 1)
    assert ran.report == [[str(hers.pk), "skipped", "gone"]]
    assert exported(ran) == [str(other.pk)]
    assert parts(storage) == ran.files
    events = AuditEvent.objects.filter(action="exported", target=ran.pk)
    assert list(events.values_list("session", flat=True)) == [other.pk]


def test_an_export_that_is_recorded_while_a_person_is_erased_is_deleted(
    user, ada, storage, monkeypatch
):
    hers, _ = talk(2)
    owned_by(ada, hers)
    operation = begin("export", user)
    steps = [lambda: carry_out(operation)]

    def delete_then_export(*args: Any, **options: Any) -> None:
        delete_exports_of(*args, **options)
        if steps:
            assert steps.pop()().done == 2

    monkeypatch.setattr(f"{erase.__module__}.delete_exports_of", delete_then_export)

    erase(ada, reason="Request 31")

    operation.refresh_from_db()
    assert operation.files == 0
    assert parts(storage) == 0


def test_an_export_that_another_process_continues_keeps_that_ones_files(
    user, storage, after_reading
):
    session, _ = talk(2)
    operation = begin("export", user)

    def continue_elsewhere() -> None:
        redact(session.pk, Find(SECRET), reason="r")
        assert list(write_parts(operation.pk, 1, BytesIO(b"{}"))) == [2]
        Operation.objects.filter(pk=operation.pk).update(runner=new_id(), files=2)

    after_reading(continue_elsewhere)

    carry_out(operation)

    operation.refresh_from_db()
    assert (operation.status, operation.files, parts(storage)) == ("running", 2, 2)


def test_a_batch_whose_commit_was_not_answered_is_recorded_once(user, storage, monkeypatch):
    session, other = talk(2)
    write = retries.write
    committed: list[Session] = []

    def write_twice(using: str, attempt: Callable[[bool], None], *, what: str) -> None:
        write(using, attempt, what=what)
        if not committed:
            committed.append(session)
            session.delete()
            attempt(True)

    monkeypatch.setattr(runner, "write", write_twice)

    ran = carry_out(begin("export", user))

    assert (ran.status, ran.done, ran.files, parts(storage)) == ("done", 2, 1, 1)
    assert len(exported(ran)) == 2
    events = AuditEvent.objects.filter(action="exported", target=ran.pk)
    assert events.filter(session=other.pk).count() == 1


def test_an_export_has_no_text_that_is_redacted_while_it_runs(user, storage, after_reading):
    session, _ = talk(2)
    after_reading(lambda: redact(session.pk, Find(SECRET), reason="Request 32"))

    ran = carry_out(begin("export", user))

    assert (ran.status, ran.done) == ("done", 2)
    assert content(ran).count(SECRET) == 1
    assert parts(storage) == ran.files


def test_an_erasure_records_the_end_of_the_operations_that_it_ends(user, ada, monkeypatch):
    monkeypatch.setattr(runner, "_BATCH", 1)
    hers, _ = talk(2)
    owned_by(ada, hers)
    export = begin("export", user)
    named = begin("hold", user, owner=str(ada.pk), reason="for ada")

    ran = carry_out(export, progress=lambda now: erase(ada, reason="Request 31", actor="desk"))

    assert (ran.status, ran.files) == ("cancelled", 0)
    assert not Operation.objects.filter(pk=named.pk).exists()
    for operation, counts in ((export, {"done": 1}), (named, {})):
        events = AuditEvent.objects.filter(action="operation", target=operation.pk)
        started, ended = events.order_by("pk")
        assert started.details["state"] == "started"
        assert ended.actor == "desk"
        assert ended.details == {"operation": operation.kind, "state": "cancelled", **counts}
        assert "ada" not in ended.reason


def test_a_large_part_of_an_erased_session_is_deleted(user, ada, storage, after_reading):
    [hers] = talk(1, text="x" * (PART_BYTES // 2))
    owned_by(ada, hers)
    after_reading(lambda: erase(ada, reason="Request 31"))

    ran = carry_out(begin("export", user))

    assert (ran.status, ran.done, ran.skipped, ran.files) == ("done", 0, 1, 0)
    assert parts(storage) == 0


@pytest.mark.parametrize("kind", ["export", "redact"])
def test_a_session_that_no_longer_matches_is_skipped(user, kind, after_reading):
    first, second, third = talk(3, namespace="support")
    operation = begin(kind, user, namespace="support")

    def move(*_: Any) -> None:
        Session.objects.filter(pk=third.pk).update(namespace="sales", redaction_epoch=1)

    after_reading(move)

    ran = carry_out(operation, progress=move)

    assert (ran.status, ran.done) == ("done", 2)
    assert ran.report == [[str(third.pk), "skipped", "changed"]]
    if kind == "export":
        assert exported(ran) == [str(first.pk), str(second.pk)]
    else:
        messages = SessionMessage.objects.all()
        left = [row.session_id for row in messages if SECRET in str(row.message)]
        assert left == [third.pk]


@pytest.mark.parametrize("kind", KINDS)
def test_it_stops_when_the_user_who_started_it_is_deleted(user, kind, monkeypatch):
    monkeypatch.setattr(runner, "_BATCH", 2)
    monkeypatch.setitem(runner._BATCHES, Operation.Kind.DELETE, 2)
    sessions = talk(4)
    Session.objects.update(legal_hold=kind == "release")

    ran = carry_out(begin(kind, user), progress=lambda now: user.pk and user.delete())

    assert (ran.status, ran.problem) == ("stopped", "access")
    # A redaction is a transaction for each session.
    assert ran.done == (1 if kind == "redact" else 2)
    assert operations.cancel(ran)
    events = AuditEvent.objects.filter(action="operation", target=ran.pk).order_by("pk")
    assert [event.details["state"] for event in events] == ["started", "cancelled"]
    assert {event.actor for event in events} == {"officer", ""}
    assert Session.objects.count() == len(sessions) - (2 if kind == "delete" else 0)


def test_no_note_is_left_out_of_a_redaction_whose_user_is_deleted(user, caplog):
    sessions = talk(2)
    grant(user, "review_session")
    for session in sessions:
        reviews.add_note(session.pk, f"Their card is {SECRET}.", author=user)

    ran = carry_out(begin("redact", user), progress=lambda now: user.pk and user.delete())

    assert (ran.status, ran.done) == ("stopped", 1)
    left = sessions[1].pk
    assert [row.session_id for row in Note.objects.all() if SECRET in row.text] == [left]
    messages = SessionMessage.objects.all()
    assert [row.session_id for row in messages if SECRET in str(row.message)] == [left]
    assert "AccessRule failed" not in caplog.text


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_it_ends_when_the_owner_of_its_filter_is_deleted(user, ada, settings, kind, kept):
    keeping = {"KEEP_SESSIONS_OF_DELETED_USERS": kept}
    settings.AGENT_SESSIONS = {**settings.AGENT_SESSIONS, **keeping}
    *hers, other = talk(3)
    owned_by(ada, *hers)
    operation = begin(kind, user, owner=str(ada.pk))
    ada.delete()

    ran = carry_out(operation)

    assert (ran.status, ran.matched, ran.done) == ("done", 0, 0)
    assert Session.objects.filter(legal_hold=False).count() == (3 if kept else 1)
    assert SECRET in str(SessionMessage.objects.get(session=other).message)
