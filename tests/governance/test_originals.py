from __future__ import annotations

import io
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.management import call_command
from django.db import connection
from django.test import override_settings
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_agent_sessions.governance.legal_hold import hold, release
from django_agent_sessions.governance.redaction import Find, WholeMessage, redact
from django_agent_sessions.governance.redaction.originals import (
    original_kept_until,
    purge_originals,
)
from django_agent_sessions.models import AuditEvent, Session, SessionMessage
from django_agent_sessions.queries import message_pages
from django_agent_sessions.testing.leaks import database_bytes
from tests.sealed import update_content

pytestmark = pytest.mark.django_db

SECRET = "plantedsecret"
TTL = 3600
KEEP = {"REDACTION_KEEP_ORIGINAL": True, "REDACTION_ORIGINAL_TTL": TTL}


@pytest.fixture(autouse=True)
def originals_are_kept():
    with override_settings(AGENT_SESSIONS=KEEP):
        yield


def talk(store, name: str, count: int = 1):
    session = store.open(name)
    agent = store.agents.open(session)
    store.append_many(
        agent, [{"role": "user", "content": f"{SECRET} {number}"} for number in range(count)]
    )
    redact(session.id, Find(SECRET), reason="gone")
    return session


def let_time_pass(*sessions, seconds: int = TTL + 1) -> None:
    """Makes what was redacted in these sessions older."""
    rows = SessionMessage.objects.filter(session__in=[session.id for session in sessions])
    for row in rows:
        assert row.redacted_at is not None
        SessionMessage.objects.filter(pk=row.pk).update(
            redacted_at=row.redacted_at - timedelta(seconds=seconds)
        )


def originals() -> int:
    return sum(SECRET in str(row.message) for row in SessionMessage.objects.all())


def purges() -> list[AuditEvent]:
    return list(AuditEvent.objects.filter(action=AuditEvent.Action.ORIGINALS_PURGED).order_by("id"))


def test_an_original_goes_when_its_time_is_over_and_not_before(store):
    session = talk(store, "s")
    let_time_pass(session, seconds=TTL - 60)
    assert purge_originals() == 0
    assert originals() == 1

    let_time_pass(session, seconds=61)
    assert purge_originals() == 1

    row = SessionMessage.objects.get()
    assert row.message == row.redact_message == {"role": "user", "content": "[REDACTED] 0"}
    assert row.redacted_at is not None
    assert row.redaction is not None


def test_what_the_next_model_call_reads_is_the_same_before_and_after(store):
    session = talk(store, "s", 3)
    agent = store.agents.open(session)
    before = store.payloads(agent)
    let_time_pass(session)

    purge_originals()

    assert store.payloads(agent) == before
    assert store.find("s").redaction_epoch == 1


def test_the_purge_of_each_session_is_recorded_once_with_its_figure(store):
    one, two = talk(store, "one"), talk(store, "two", 3)
    let_time_pass(one, two)

    assert purge_originals(actor="cron") == 4
    assert purge_originals() == 0

    assert {event.session: event.details for event in purges()} == {
        one.id: {"messages": 1},
        two.id: {"messages": 3},
    }
    assert {event.actor for event in purges()} == {"cron"}
    assert SECRET not in str([(event.reason, event.details) for event in purges()])


def test_originals_under_legal_hold_stay_until_it_is_released(store):
    session = talk(store, "s")
    let_time_pass(session)
    hold(session.id, reason="a lawsuit")
    assert purge_originals() == 0
    assert originals() == 1

    release(session.id, reason="settled")
    assert purge_originals() == 1
    assert originals() == 0


def test_a_session_that_is_put_under_hold_during_the_purge_keeps_its_originals(store, monkeypatch):
    session = talk(store, "s")
    let_time_pass(session)
    Session.objects.filter(pk=session.id).update(legal_hold=True)
    # As another process saw it a moment ago.
    monkeypatch.setattr(
        "django_agent_sessions.governance.redaction.originals._redacted_sessions",
        lambda using: iter([[session.id]]),
    )

    assert purge_originals() == 0
    assert originals() == 1
    assert not purges()


def test_what_was_never_redacted_and_what_kept_no_original_is_left_alone(store):
    plain = store.open("plain")
    store.append(store.agents.open(plain), {"role": "user", "content": "as it was"})
    with override_settings(AGENT_SESSIONS={"REDACTION_ORIGINAL_TTL": TTL}):
        gone = talk(store, "gone")
    let_time_pass(gone)

    assert purge_originals() == 0
    assert not purges()
    assert SessionMessage.objects.get(session=plain.id).message["content"] == "as it was"


def test_an_original_that_differs_only_in_case_goes_too(store):
    session = talk(store, "s")
    let_time_pass(session)
    original = {"message": {"role": "user", "content": "[redacted] 0"}}
    update_content(SessionMessage.objects.all(), original)

    assert purge_originals() == 1
    assert SessionMessage.objects.get().message["content"] == "[REDACTED] 0"


def test_an_original_that_differs_only_in_case_is_one_that_may_be_seen(store):
    session = talk(store, "s")
    (key,) = SessionMessage.objects.values_list("pk", flat=True)
    scope = message_pages.MessageQuery(Session.objects.get())
    for said, kept in (("[redacted] 0", True), ("[REDACTED] 0", False)):
        update_content(SessionMessage.objects.all(), {"message": {"role": "user", "content": said}})
        assert (original_kept_until(session.id, key) is not None) is kept
        assert message_pages.last_page(scope, originals=True).rows[0].original is kept


def test_a_session_with_very_many_originals_is_purged_in_parts(store, monkeypatch):
    monkeypatch.setattr("django_agent_sessions.governance.redaction.originals._MESSAGE_BATCH", 4)
    session = talk(store, "s", 10)
    let_time_pass(session)

    assert purge_originals() == 10
    assert originals() == 0
    assert [event.details["messages"] for event in purges()] == [4, 4, 2]


def test_many_redacted_sessions_are_looked_at_in_parts(store, monkeypatch):
    monkeypatch.setattr("django_agent_sessions.governance.redaction.originals._SESSION_BATCH", 2)
    sessions = [talk(store, f"s{number}") for number in range(5)]
    let_time_pass(*sessions)

    assert purge_originals(dry_run=True) == 5
    assert purge_originals() == 5
    assert originals() == 0


def test_sessions_without_old_originals_cost_no_statement_each(store):
    def statements() -> int:
        with CaptureQueriesContext(connection) as captured:
            purge_originals()
        return len(captured)

    talk(store, "first")
    few = statements()
    for number in range(8):
        talk(store, f"s{number}")

    assert statements() == few


def test_a_whole_messages_original_goes_and_a_point_of_time_can_be_given(store):
    session = store.open("s")
    store.append(store.agents.open(session), {"role": "user", "content": SECRET})
    row = SessionMessage.objects.get()
    redact(session.id, WholeMessage(row.pk), reason="gone")

    assert purge_originals(before=timezone.now() - timedelta(hours=1)) == 0
    assert purge_originals(before=timezone.now() + timedelta(seconds=1)) == 1
    assert originals() == 0
    assert purges()[0].target == row.pk


def test_the_command_counts_first_and_purges_then(store):
    session = talk(store, "s", 2)
    let_time_pass(session)

    def said(*arguments: str) -> str:
        out = io.StringIO()
        call_command("agent_sessions_purge_originals", *arguments, stdout=out)
        return out.getvalue().strip()

    assert said("--dry-run") == "2 originals would be purged"
    assert originals() == 2
    assert not purges()
    assert said() == "2 originals purged"
    assert originals() == 0
    assert purges()[0].actor == "agent_sessions_purge_originals"
    assert said() == "0 originals purged"


@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif("connection.vendor != 'sqlite'", reason="is about SQLite's file")
def test_nothing_of_a_purged_original_is_left_in_sqlites_files(store):
    name = Path(connection.settings_dict["NAME"])
    files = [name, name.with_name(name.name + "-wal")]

    def found() -> bool:
        return any(SECRET.encode() in database_bytes(file) for file in files if file.exists())

    session = talk(store, "s", 20)
    let_time_pass(session)
    assert found()

    purge_originals()

    assert not found()
