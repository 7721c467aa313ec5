"""What operations on all matching sessions do, count, report and record."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.core.exceptions import PermissionDenied
from django.core.management import CommandError, call_command
from django.db import OperationalError
from django.utils import timezone

from django_agent_sessions import operations
from django_agent_sessions.blobs.export_files import delete_expired_exports, read_export
from django_agent_sessions.exceptions import ReasonRequiredError
from django_agent_sessions.governance import legal_hold, reviews
from django_agent_sessions.governance.erasure import erase
from django_agent_sessions.governance.erasure_receipt import hashed
from django_agent_sessions.governance.retention import prune
from django_agent_sessions.management.commands import agent_sessions_run_operations
from django_agent_sessions.models import AuditEvent, Operation, Session, SessionMessage
from django_agent_sessions.operations import runner
from django_agent_sessions.queries import matching
from tests.admin.people import grant

from .making import EVERYTHING, SECRET, begin, carry_out, expire, officer, storing_exports, talk

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def storage(settings, tmp_path):
    for name, value in storing_exports(tmp_path).items():
        setattr(settings, name, value)
    return tmp_path


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(runner, "_BATCH", 20)


@pytest.fixture
def user():
    return officer()


def finished(operation: Operation) -> Operation:
    ran = carry_out(operation)
    assert ran.status == "done"
    return ran


def figures(operation: Operation) -> dict[str, int]:
    names = ("matched", "done", "unchanged", "skipped", "failed")
    return {name: getattr(operation, name) for name in names}


def test_a_hold_holds_what_matches_and_nothing_else(user):
    sessions = talk(120, namespace="support")
    talk(3, namespace="sales")
    legal_hold.hold(sessions[7].pk, reason="Earlier")
    operation = begin("hold", user, namespace="support")
    later = talk(1, namespace="support-later") + talk(0)
    Session.objects.filter(pk=later[0].pk).update(namespace="support")

    ran = finished(operation)

    counts = {"matched": 120, "done": 119, "unchanged": 1, "skipped": 0, "failed": 0}
    assert figures(ran) == counts
    held = Session.objects.filter(legal_hold=True)
    assert set(held.values_list("pk", flat=True)) == {each.pk for each in sessions}
    events = AuditEvent.objects.filter(action="held", target=operation.pk)
    assert events.count() == 119
    assert {(e.actor, e.reason, e.details["via"]) for e in events} == {
        ("officer", "Case 7", "operation")
    }
    states = AuditEvent.objects.filter(action="operation", target=operation.pk).order_by("pk")
    assert [event.details["state"] for event in states] == ["started", "done"]


def test_a_deletion_skips_held_sessions_and_names_them(user):
    sessions = talk(60)
    for session in sessions[10:12]:
        legal_hold.hold(session.pk, reason="Case 7")

    ran = finished(begin("delete", user))

    assert figures(ran) == {"matched": 60, "done": 58, "unchanged": 0, "skipped": 2, "failed": 0}
    assert ran.report == [[str(each.pk), "skipped", "held"] for each in sessions[10:12]]
    assert set(Session.objects.all()) == set(sessions[10:12])
    assert SessionMessage.objects.count() == 2
    assert AuditEvent.objects.filter(action="deleted", target=ran.pk).count() == 58


def test_a_redaction_redacts_and_forgets_what_it_searched(user):
    sessions = talk(5)
    talk(3, namespace="clean", text="nothing here")
    legal_hold.hold(sessions[1].pk, reason="Case 7")

    operation = begin("redact", user, reason=f"They asked to remove {SECRET}")
    assert SECRET not in operation.reason
    ran = finished(operation)

    assert figures(ran) == {"matched": 8, "done": 4, "unchanged": 3, "skipped": 1, "failed": 0}
    assert ran.report == [[str(sessions[1].pk), "skipped", "held"]]
    assert ran.scope == ""
    with_secret = SessionMessage.objects.filter(text__contains=SECRET)
    assert list(with_secret.values_list("session", flat=True)) == [sessions[1].pk]


def test_an_export_is_one_file_of_all_sessions(user, storage):
    sessions = talk(450)

    ran = finished(begin("export", user))

    lines = b"".join(read_export(ran)).decode().splitlines()
    assert [json.loads(line)["session"]["id"] for line in lines] == [str(s.pk) for s in sessions]
    assert AuditEvent.objects.filter(action="exported", target=ran.pk).count() == 450
    Operation.objects.update(finished_at=timezone.now() - timedelta(days=8))
    assert delete_expired_exports() == ran.files
    assert [path for path in storage.rglob("*") if path.is_file()] == []


def test_an_export_has_notes_only_for_those_who_may_review(user, storage):
    (session,) = talk(1)
    reviews.add_note(session.pk, "plantednote", author=user)
    without = b"".join(read_export(finished(begin("export", user))))
    grant(user, "review_session")
    assert b"plantednote" not in without
    assert b"plantednote" in b"".join(read_export(finished(begin("export", user))))


def test_a_deleted_session_of_a_found_list_is_no_match(user):
    sessions = talk(3)
    operation = operations.start(
        "hold",
        user=user,
        criteria={"site": "admin", "filters": {}},
        reason="Case 7",
        found=[each.pk for each in sessions[:2]],
    )
    sessions[0].delete()

    assert figures(finished(operation))["done"] == 1
    assert not Session.objects.get(pk=sessions[2].pk).legal_hold


def test_relative_dates_count_from_the_start(user):
    (session,) = talk(1)
    operation = begin("hold", user, activity="1d")
    two_days = timezone.now() - timedelta(days=2)
    Session.objects.update(created_at=two_days, last_activity_at=two_days)
    Operation.objects.update(created_at=two_days)

    assert figures(finished(operation))["done"] == 1
    session.refresh_from_db()
    assert session.legal_hold


class TestRights:
    """The permissions and the access rule apply at the start and to each batch."""

    def test_without_permission_nothing_starts(self):
        with pytest.raises(PermissionDenied):
            begin("delete", officer("viewer", "view_session", "change_session"))
        assert not Operation.objects.exists()

    def test_a_required_reason_is_required(self, user):
        with pytest.raises(ReasonRequiredError):
            begin("hold", user, reason=" ")

    def test_a_right_that_is_taken_away_stops_it(self, user):
        talk(120)
        operation = begin("hold", user)

        def take_away(now: Operation) -> None:
            user.user_permissions.filter(codename="change_session").delete()

        ran = carry_out(operation, progress=take_away)

        assert (ran.status, ran.problem, ran.done) == ("stopped", "access", 20)
        assert Session.objects.filter(legal_hold=True).count() == 20

    def test_a_user_who_was_deactivated_stops_it(self, user):
        talk(2)
        operation = begin("hold", user)
        type(user).objects.update(is_active=False)

        assert carry_out(operation).problem == "access"

    def test_the_access_rule_applies(self, user, settings, ada):
        mine, others = talk(3), talk(2, namespace="others")
        Session.objects.filter(pk__in=[each.pk for each in mine]).update(owner=ada)
        settings.AGENT_SESSIONS = {"ACCESS": f"{__name__}.OfAda"}

        assert figures(finished(begin("delete", user)))["done"] == 3
        assert set(Session.objects.all()) == set(others)


def _rule() -> Any:
    from django.db.models import Q

    from django_agent_sessions.models.access import AccessRule

    class OfAda(AccessRule):
        def sessions(self, user, action):
            return Q(owner__username="ada") if super().sessions(user, action) else None

    return OfAda


OfAda = _rule()


class TestGoingOn:
    """One process at a time; what was stopped continues."""

    def test_a_running_operation_is_not_run_twice(self, user):
        talk(60)
        operation = begin("hold", user)
        inside = []

        carry_out(operation, progress=lambda now: inside.append(operations.run(now.pk)))

        assert set(inside) == {None}
        assert operations.run(operation.pk) is None

    def test_what_was_taken_over_does_nothing_more(self, user):
        talk(120)
        operation = begin("hold", user)

        def take_over(now: Operation) -> None:
            if now.done == 40:
                expire(operation)
                assert carry_out(operation).done == 120

        ran = carry_out(operation, progress=take_over)

        assert (ran.status, ran.done) == ("done", 120)
        assert AuditEvent.objects.filter(action="held").count() == 120

    def test_a_cancelled_operation_ends(self, user):
        talk(120)
        operation = begin("hold", user)

        ran = carry_out(operation, progress=lambda now: operations.cancel(operation, actor=user))

        assert (ran.status, ran.done) == ("cancelled", 20)
        assert not operations.cancel(operation)
        assert not operations.resume(operation)
        assert operations.run_waiting() == []

    def test_time_that_is_over_leaves_it_waiting(self, user):
        talk(120)
        operation = begin("hold", user)

        assert carry_out(operation, seconds=1e-9).status == "waiting"
        (ran,) = operations.run_waiting()
        assert (ran.status, ran.done) == ("done", 120)

    def test_the_command_runs_what_waits_and_what_was_left(self, user):
        talk(3)
        waiting, left = begin("hold", user), begin("release", user)
        Operation.objects.filter(pk=left.pk).update(status="running")
        expire(left)
        out = io.StringIO()

        call_command("agent_sessions_run_operations", "--once", stdout=out)

        assert out.getvalue().splitlines() == [
            f"hold {waiting.pk}: done; 3 done, 0 unchanged, 0 skipped, 0 failed",
            f"release {left.pk}: done; 3 done, 0 unchanged, 0 skipped, 0 failed",
        ]

    def test_an_error_stops_it_and_it_goes_on(self, user, monkeypatch):
        talk(3)
        operation = begin("hold", user)
        with monkeypatch.context() as patched:
            patched.setattr(runner, "sessions_of", lambda operation: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                carry_out(operation)
        operation.refresh_from_db()
        assert (operation.status, operation.problem) == ("stopped", "ZeroDivisionError")

        assert operations.resume(operation)
        assert finished(operation).done == 3

    def test_the_end_of_its_process_is_no_error(self, user):
        talk(1)
        operation = begin("hold", user)

        def press_ctrl_c(now: Operation) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            carry_out(operation, progress=press_ctrl_c)

        operation.refresh_from_db()
        assert (operation.status, operation.problem) == ("stopped", "")

    def test_one_session_that_fails_does_not_hold_up_the_others(self, user, monkeypatch):
        sessions = talk(5)
        hold = legal_hold.set_locked

        def fail_for_one(rows, held, **options):
            if sessions[2] in rows:
                raise RuntimeError("broken")
            hold(rows, held, **options)

        monkeypatch.setattr(legal_hold, "set_locked", fail_for_one)

        ran = finished(begin("hold", user))

        assert figures(ran) == {"matched": 5, "done": 4, "unchanged": 0, "skipped": 0, "failed": 1}
        assert ran.report == [[str(sessions[2].pk), "failed", "RuntimeError"]]

    def test_the_report_names_the_first_and_counts_all(self, user, monkeypatch):
        monkeypatch.setattr(runner, "MAX_REPORT", 4)
        sessions = talk(6)
        Session.objects.update(legal_hold=True)

        ran = finished(begin("delete", user))

        assert ran.skipped == 6
        assert [key for key, _, _ in ran.report] == [str(each.pk) for each in sessions[:4]]


@pytest.fixture
def broken(monkeypatch):
    """The primary keys of operations that raise an error, which quotes content."""
    keys: set[UUID] = set()

    def fail(operation: Operation) -> Any:
        if operation.pk in keys:
            raise RuntimeError(SECRET)
        return matching.sessions_of(operation)

    monkeypatch.setattr(runner, "sessions_of", fail)
    return keys


class TestTheCommand:
    """What ``agent_sessions_run_operations`` prints, and its exit status."""

    def run(self, *args: str) -> tuple[list[str], str]:
        """Return the lines of the output, and the error, which sets the exit status to 1."""
        out = io.StringIO()
        with pytest.raises(CommandError) as caught:
            call_command("agent_sessions_run_operations", *args, stdout=out)
        assert caught.value.returncode == 1
        assert SECRET not in out.getvalue() + str(caught.value)
        return out.getvalue().splitlines(), str(caught.value)

    def test_an_operation_that_raises_is_named_and_the_others_go_on(self, user, broken):
        talk(3)
        raising, other = begin("hold", user), begin("release", user)
        broken.add(raising.pk)

        lines, error = self.run("--once")

        assert lines == [
            f"hold {raising.pk}: stopped; 0 done, 0 unchanged, 0 skipped, 0 failed",
            f"release {other.pk}: done; 0 done, 3 unchanged, 0 skipped, 0 failed",
        ]
        assert error == (
            f"hold {raising.pk}: an error stopped it (RuntimeError, see the log); the next run "
            "continues it"
        )

    def test_an_operation_whose_row_cannot_be_read_is_named(self, user, broken, monkeypatch):
        operation = begin("hold", user)
        broken.add(operation.pk)

        def fail(self: Operation, **options: Any) -> None:
            raise OperationalError("the connection is lost")

        monkeypatch.setattr(Operation, "refresh_from_db", fail)

        assert f"hold {operation.pk}: an error stopped it (RuntimeError" in self.run("--once")[1]

    def test_a_lost_permission_is_named(self, user):
        operation = begin("hold", user)
        type(user).objects.update(is_active=False)

        lines, error = self.run("--once")

        assert lines[0].startswith(f"hold {operation.pk}: stopped;")
        assert error == (
            f"hold {operation.pk}: the user who started it may no longer do this: cancel it in "
            "the admin"
        )

    def test_failed_sessions_are_counted(self, user, storage):
        talk(2)
        operation = begin("export", user)
        shutil.rmtree(storage)
        storage.write_text("a file, so that the storage has no directory")

        lines, error = self.run("--once")

        assert lines == [f"export {operation.pk}: done; 0 done, 0 unchanged, 0 skipped, 2 failed"]
        assert error == (
            f"export {operation.pk}: 2 sessions failed; the report in the admin names them"
        )

    def test_a_cancelled_operation_is_no_error(self, user, broken, monkeypatch):
        operation = begin("hold", user)
        broken.add(operation.pk)
        monkeypatch.setattr(
            runner._Runner, "stop", lambda self, problem: operations.cancel(operation)
        )

        call_command("agent_sessions_run_operations", "--once", stdout=io.StringIO())

        operation.refresh_from_db()
        assert operation.status == "cancelled"

    def test_a_worker_goes_on_after_an_error(self, user, broken, monkeypatch):
        talk(1)
        operation = begin("hold", user)
        broken.add(operation.pk)
        clock = Clock(monkeypatch)
        clock.steps = [broken.clear, clock.press_ctrl_c]
        out = io.StringIO()

        with pytest.raises(KeyboardInterrupt):
            call_command("agent_sessions_run_operations", stdout=out)

        states = [line.split(";")[0] for line in out.getvalue().splitlines()]
        assert states == [f"hold {operation.pk}: stopped", f"hold {operation.pk}: done"]

    def test_a_worker_with_a_limit_names_at_its_end_what_is_left(self, user, broken, monkeypatch):
        first, second = begin("hold", user), begin("hold", user)
        broken.update([first.pk, second.pk])
        clock = Clock(monkeypatch)
        clock.steps = [lambda: broken.remove(first.pk)]

        lines, error = self.run("--limit", "7")

        assert [line.split(";")[0] for line in lines] == [
            f"hold {first.pk}: stopped",
            f"hold {second.pk}: stopped",
            f"hold {first.pk}: done",
            f"hold {second.pk}: stopped",
        ]
        assert str(second.pk) in error
        assert str(first.pk) not in error


class Clock:
    """The clock of the command; each pause does the next step."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.steps: list[Callable[[], None]] = []
        monkeypatch.setattr(agent_sessions_run_operations, "time", self)

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.steps:
            self.steps.pop(0)()

    def press_ctrl_c(self) -> None:
        raise KeyboardInterrupt


def test_everything_is_what_the_kinds_need():
    from django_agent_sessions.models.permissions import OPERATION_PERMISSIONS

    assert {p for needed in OPERATION_PERMISSIONS.values() for p in needed} == set(EVERYTHING)


class TestErasureAndRetention:
    def test_an_erasure_reaches_filters_names_reasons_and_files(self, user, ada, storage):
        sessions = talk(2)
        Session.objects.filter(pk=sessions[0].pk).update(owner=ada)
        everything = finished(begin("export", user, reason="for ada"))
        talk(1, namespace="others")
        others = finished(begin("export", user, namespace="others"))
        begin("hold", user, owner=str(ada.pk))
        grant(ada, *EVERYTHING)
        started = begin("hold", ada)

        erase(ada, reason="Request 31")

        assert not Operation.objects.filter(criteria__filters__has_key="owner").exists()
        everything.refresh_from_db()
        assert (everything.files, "ada" in everything.reason) == (0, False)
        started.refresh_from_db()
        assert {started.started_by, started.started_by_name} == {hashed("person", ada.pk)}
        assert carry_out(started).problem == "access"
        left = [path for path in storage.rglob("*") if path.is_file()]
        assert [str(others.pk) in str(path) for path in left] == [True]

    def test_retention_deletes_old_operations_with_their_files(self, user, settings, storage):
        talk(1)
        finished(begin("export", user))
        waiting = begin("hold", user)
        retention = {"RETENTION": {"AUDIT_EVENTS": timedelta(days=30)}}
        settings.AGENT_SESSIONS = {**settings.AGENT_SESSIONS, **retention}
        Operation.objects.exclude(pk=waiting.pk).update(
            finished_at=timezone.now() - timedelta(days=31)
        )

        prune()

        assert list(Operation.objects.all()) == [waiting]
        assert [path for path in storage.rglob("*") if path.is_file()] == []
