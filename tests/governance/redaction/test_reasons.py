"""A redaction reaches the reasons that were given for a session before."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from django_agent_sessions import audit
from django_agent_sessions.content import detectors
from django_agent_sessions.exceptions import AuditError
from django_agent_sessions.governance import legal_hold
from django_agent_sessions.governance.operation_erasure import shown_filters
from django_agent_sessions.governance.redaction import Detect, Find, redact
from django_agent_sessions.models import AuditEvent
from django_agent_sessions.operations import cancel, start
from tests.operations.making import carry_out, officer, storing_exports

pytestmark = pytest.mark.django_db

SECRET = "plantedsecret"


def reasons(**of: Any) -> list[tuple[str, str]]:
    return [*AuditEvent.objects.filter(**of).order_by("pk").values_list("action", "reason")]


@pytest.fixture
def talk(store):
    session = store.open("s", title="A title")
    agent = store.agents.open(session)
    store.append(agent, {"role": "user", "content": f"my word is {SECRET}"})
    legal_hold.hold(session.id, reason=f"a case about {SECRET}", actor="counsel")
    legal_hold.release(session.id, reason=f"{SECRET.upper()}: closed", actor="counsel")
    audit.record(AuditEvent.Action.EXPORTED, session=session.id, reason=f"for {SECRET}, twice")
    return session


def test_reasons_of_earlier_events_do_not_keep_what_is_redacted(talk):
    before = list(AuditEvent.objects.order_by("pk").values("pk", "actor", "details", "created_at"))

    redact(talk.id, Find(SECRET), reason=f"remove {SECRET}")

    assert SECRET not in str(list(AuditEvent.objects.values())).lower()
    assert reasons() == [
        ("held", "a case about [REDACTED]"),
        ("released", "[REDACTED]: closed"),
        ("exported", "for [REDACTED], twice"),
        ("redacted", "remove [REDACTED]"),
    ]
    event = AuditEvent.objects.get(action="redacted")
    assert event.details["reasons"] == 3
    after = list(AuditEvent.objects.order_by("pk").values("pk", "actor", "details", "created_at"))
    assert after[:3] == before


def test_a_reason_that_was_given_after_the_redaction_is_reached_by_the_next_one(talk):
    redact(talk.id, Find(SECRET), reason="r")
    legal_hold.hold(talk.id, reason=f"again about {SECRET}")
    legal_hold.release(talk.id, reason="closed")

    done = redact(talk.id, Find(SECRET), reason="r")

    assert done.hits == []
    assert SECRET not in str(reasons())
    assert AuditEvent.objects.filter(action="redacted").count() == 2
    redact(talk.id, Find(SECRET), reason="r")
    assert AuditEvent.objects.filter(action="redacted").count() == 2


def test_what_a_detector_found_is_masked_in_earlier_reasons(store, talk, monkeypatch):
    agent = store.agents.find(talk, "default")
    store.append(agent, {"role": "user", "content": "mail jane.doe@example.com"})
    # Recorded when no detector masked it.
    monkeypatch.setattr(detectors, "available", lambda: [])
    audit.record(AuditEvent.Action.EXPORTED, session=talk.id, reason="ask jane.doe@example.com")
    monkeypatch.undo()

    redact(talk.id, Detect(["email"]), reason="r")

    assert "jane.doe" not in str(reasons())


def test_reasons_of_forks_are_reached_with_them_and_those_of_other_sessions_stay(store, talk):
    fork = store.sessions.fork(talk)
    other = store.open("other")
    for session in (fork, other):
        audit.record(AuditEvent.Action.EXPORTED, session=session.id, reason=f"for {SECRET}")

    redact(talk.id, Find(SECRET), reason="r", descendants=True)

    assert SECRET not in str(reasons(session=fork.id))
    assert reasons(session=other.id) == [("exported", f"for {SECRET}")]


def test_a_redaction_that_fails_or_is_only_tried_changes_no_reason(talk):
    redact(talk.id, Find(SECRET), reason="", dry_run=True)
    with transaction.atomic():
        redact(talk.id, Find(SECRET), reason="r")
        transaction.set_rollback(True)

    assert reasons()[0] == ("held", f"a case about {SECRET}")


def test_the_trail_stays_append_only_after_a_redaction(talk):
    with transaction.atomic():
        redact(talk.id, Find(SECRET), reason="r")
        event = AuditEvent.objects.order_by("pk")[0]
        event.reason = "another"
        with pytest.raises(AuditError):
            event.save()
        if connection.vendor == "postgresql":
            table = AuditEvent._meta.db_table
            refused = pytest.raises(DatabaseError, match="only ever added")
            with refused, transaction.atomic(), connection.cursor() as cursor:
                cursor.execute(f"UPDATE {table} SET reason = 'another'")


@pytest.mark.parametrize("kind", ["hold", "export", "redact"])
def test_the_operations_on_a_session_do_not_keep_what_is_redacted(store, kind, tmp_path, settings):
    for name, value in storing_exports(tmp_path).items():
        setattr(settings, name, value)
    settings.AGENT_SESSIONS = {**settings.AGENT_SESSIONS, "METADATA_FILTERS": ("team",)}
    session = store.open("s", title="A title", metadata={"team": SECRET})
    agent = store.agents.open(session)
    for text in ("the other word", f"my word is {SECRET}"):
        store.append(agent, {"role": "user", "content": text})
    operation = start(
        kind,
        user=officer(),
        criteria={"site": "admin", "filters": {"metadata_team": [SECRET], "held": ["no"]}},
        reason=f"a case about {SECRET}",
        scope=Find("the other word") if kind == "redact" else None,
    )
    elsewhere = start(
        "hold",
        user=officer("other"),
        criteria={"site": "admin", "filters": {"namespace": ["none"]}},
        reason=f"a case about {SECRET}",
    )
    for each in (operation, elsewhere):
        carry_out(each)
    legal_hold.release(session.id, reason="closed")

    redact(session.id, Find(SECRET), reason="r")

    operation.refresh_from_db()
    elsewhere.refresh_from_db()
    assert operation.reason == "a case about [REDACTED]"
    assert operation.criteria["filters"] == {"metadata_team": ["[REDACTED]"], "held": ["no"]}
    own = AuditEvent.objects.exclude(target=elsewhere.pk).values("reason", "details")
    assert SECRET not in str(list(own))
    # Of an operation that did nothing to the session.
    assert SECRET in elsewhere.reason
    assert AuditEvent.objects.get(action="redacted", actor="").details["operations"] == 1


@pytest.mark.parametrize("end", [cancel, carry_out])
def test_an_operation_keeps_its_filters_until_it_is_over(store, settings, end):
    settings.AGENT_SESSIONS = {"METADATA_FILTERS": ("team",)}
    sessions = [store.open(name, metadata={"team": SECRET}) for name in ("first", "second")]
    operation = start(
        "hold",
        user=officer(),
        criteria={"site": "admin", "filters": {"metadata_team": [SECRET], "held": ["no"]}},
        reason="a case",
    )
    # It has handled one of them, and stopped.
    details = {"via": "operation"}
    event = {"session": sessions[0].id, "target": operation.pk, "details": details}
    audit.record(AuditEvent.Action.HELD, **event)

    redact(sessions[0].id, Find(SECRET), reason="r")

    operation.refresh_from_db()
    masked = {"metadata_team": ["[REDACTED]"], "held": ["no"]}
    assert operation.criteria["filters"] == {"metadata_team": [SECRET], "held": ["no"]}
    assert shown_filters(operation) == masked

    end(operation)

    operation.refresh_from_db()
    assert operation.is_over
    assert operation.criteria == {"site": "admin", "filters": masked}
    if end is carry_out:
        assert legal_hold.release(sessions[1].id, reason="it was held")
