from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, transaction
from django.db.models import F
from django.utils import timezone
from django.utils.functional import SimpleLazyObject

from django_agent_sessions import audit
from django_agent_sessions.exceptions import AuditError, ConfigurationError
from django_agent_sessions.governance import legal_hold
from django_agent_sessions.governance.redaction import redact
from django_agent_sessions.management.options import get_actor
from django_agent_sessions.models import AuditEvent, Session, SessionMessage

pytestmark = pytest.mark.django_db

Action = AuditEvent.Action
TABLE = "agent_sessions_auditevent"


def events() -> list[tuple]:
    return list(AuditEvent.objects.order_by("pk").values_list())


def aged(days: int) -> AuditEvent:
    return AuditEvent.objects.create(
        action=Action.READ, created_at=timezone.now() - timedelta(days=days)
    )


def purged(*arguments: str) -> str:
    out = StringIO()
    call_command("agent_sessions_purge_audit", *arguments, stdout=out)
    return out.getvalue().strip()


# --- what an event says ----------------------------------------------------------------------


def test_an_event_says_who_did_what_to_what_and_why(ada):
    session, target = uuid.uuid4(), uuid.uuid4()

    audit.record(
        Action.READ, session=session, target=target, actor=ada, reason="a ticket", details={"n": 1}
    )

    event = AuditEvent.objects.get()
    assert (event.action, event.session, event.target) == ("read", session, target)
    assert (event.actor_id, event.actor) == (str(ada.pk), "ada")
    assert (event.reason, event.details) == ("a ticket", {"n": 1})
    assert abs(timezone.now() - event.created_at) < timedelta(minutes=5)


def test_an_actor_is_a_value_that_survives_the_user(ada):
    key = ada.pk
    audit.record(Action.READ, actor=ada)
    before = events()

    ada.delete()

    assert events() == before
    event = AuditEvent.objects.get()
    assert (event.actor_id, event.actor) == (str(key), "ada")


def test_a_program_is_named_by_its_text_and_nobody_by_none():
    audit.record(Action.READ, actor="manage.py prune")
    audit.record(Action.READ)

    assert set(AuditEvent.objects.values_list("actor_id", "actor")) == {
        ("", "manage.py prune"),
        ("", ""),
    }


def test_whoever_is_acting_is_recorded_unless_somebody_else_is_named(ada, bob):
    with audit.acting(ada):
        audit.record(Action.READ)
        with audit.acting(bob):
            audit.record(Action.HELD)
        audit.record(Action.RELEASED, actor="a program")
    audit.record(Action.EXPORTED)

    actors = dict(AuditEvent.objects.values_list("action", "actor"))
    assert actors == {"read": "ada", "held": "bob", "released": "a program", "exported": ""}


def test_a_username_is_no_actor(ada, store):
    session = store.open("s")

    with pytest.raises(ConfigurationError, match="pass the user as actor"):
        audit.record(Action.READ, actor="ada")
    with audit.acting("ada"), pytest.raises(ConfigurationError, match="pass the user as actor"):
        audit.record(Action.READ)
    with (
        audit.acting("ada"),
        pytest.raises(ConfigurationError, match="pass the user as actor"),
        transaction.atomic(),
    ):
        Session.objects.get(pk=session.id).delete()

    assert Session.objects.filter(pk=session.id).exists()
    assert not AuditEvent.objects.exists()


def test_neither_is_a_users_key_as_text(ada, store):
    session = store.open("s")
    actions: list[Callable[[str], Any]] = [
        lambda actor: audit.record(Action.READ, actor=actor),
        lambda actor: redact(session, "secret", reason="a ticket", actor=actor),
        lambda actor: legal_hold.hold(session, reason="a ticket", actor=actor),
        lambda actor: get_actor({"actor": None, "program": actor}, "default"),
    ]
    for act in actions:
        with pytest.raises((ConfigurationError, CommandError), match=r"pass the user|is a user"):
            act(str(ada.pk))
    with audit.acting(str(ada.pk)), pytest.raises(ConfigurationError, match="pass the user"):
        audit.record(Action.READ)
    assert not AuditEvent.objects.exists()


def test_the_key_of_no_user_is_a_program(ada, django_assert_num_queries):
    programs = [str(ada.pk + 1), "9" * 40, "9" * 5000, "\x001", f"job {ada.pk}", str(uuid.uuid4())]
    for program in programs:
        with django_assert_num_queries(1):
            audit.refuse_username(program, using="default")
    with django_assert_num_queries(1), pytest.raises(ConfigurationError):
        audit.refuse_username(str(ada.pk), using="default")


@pytest.mark.parametrize("user", [AnonymousUser(), get_user_model()(username="new")])
def test_neither_is_a_user_without_a_key(store, user):
    session = store.open("s")
    legal_hold.hold(session, reason="a ticket")
    before = events()
    for actor in (user, SimpleLazyObject(lambda: user)):
        with pytest.raises(ConfigurationError, match="anonymous or unsaved user"):
            legal_hold.release(session, reason="a ticket", actor=actor)
        with pytest.raises(ConfigurationError, match="anonymous or unsaved user"):
            audit.record(Action.READ, actor=actor)
    assert events() == before
    # The middleware is around requests without a login, too.
    with audit.acting(user):
        assert audit.record(Action.READ).actor_id == ""


@pytest.mark.parametrize("actor", [5, b"ada", ["ada"]])
def test_neither_is_another_value(actor):
    with pytest.raises(ConfigurationError, match="must be a user, or a text"), audit.acting(actor):
        pytest.fail("not reached")
    with pytest.raises(ConfigurationError, match="must be a user, or a text"):
        audit.record(Action.READ, actor=actor)


def test_the_name_of_a_program_is_looked_up_once_in_a_block(django_assert_num_queries):
    with audit.acting("cleaner"), django_assert_num_queries(3):
        audit.record(Action.READ)
        audit.record(Action.READ)

    assert [*AuditEvent.objects.values_list("actor", flat=True)] == ["cleaner"] * 2


def test_who_acts_is_forgotten_after_an_error(ada):
    with pytest.raises(KeyError), audit.acting(ada):
        raise KeyError
    audit.record(Action.READ)

    assert AuditEvent.objects.get().actor == ""


def test_a_reason_holds_neither_what_was_redacted_nor_what_detectors_find():
    audit.record(
        Action.REDACTED,
        reason="removed plantedsecret, also PLANTEDSECRET, asked by jane.doe@example.com",
        secrets=["plantedsecret"],
    )

    reason = AuditEvent.objects.get().reason
    assert "plantedsecret" not in reason.lower()
    assert "jane.doe" not in reason
    assert reason.startswith("removed [REDACTED")
    assert "asked by" in reason


def test_a_reason_of_any_kind_can_be_kept():
    audit.record(Action.READ, reason="\x00\ud800" + "x" * 10_000, actor="\x00" * 300)

    event = AuditEvent.objects.get()
    assert event.reason.startswith("\ufffd\ufffdxx")
    assert len(event.reason) == 2000
    assert event.actor == "\ufffd" * 255


# --- append-only -----------------------------------------------------------------------------


@pytest.fixture
def event():
    return audit.record(Action.READ, reason="as it was")


def test_an_event_cannot_be_changed_or_deleted_as_a_row(event):
    before = events()
    event.reason = "another"
    fresh = AuditEvent.objects.get()

    for refused in (
        event.save,
        event.delete,
        lambda: event.save(update_fields=["reason"]),
        fresh.save,
        fresh.delete,
    ):
        with pytest.raises(AuditError):
            refused()

    assert events() == before


def test_events_cannot_be_changed_or_deleted_as_a_queryset(event):
    before = events()
    event.reason = "another"
    rows = AuditEvent.objects.all()

    for refused in (
        rows.delete,
        rows.filter(pk=event.pk).delete,
        lambda: rows.update(reason="another"),
        lambda: rows.update(created_at=F("created_at")),
        lambda: rows.bulk_update([event], ["reason"]),
        lambda: rows.update_or_create(pk=event.pk, defaults={"reason": "another"}),
        lambda: rows.bulk_create(
            [event], update_conflicts=True, update_fields=["reason"], unique_fields=["id"]
        ),
        lambda: rows.bulk_create([event], None, False, True, ["reason"], ["id"]),
    ):
        with pytest.raises(AuditError):
            refused()

    assert events() == before


async def test_events_cannot_be_changed_or_deleted_in_async_code_either():
    event = AuditEvent(action=Action.READ)
    event._state.adding = False
    rows = AuditEvent.objects.all()
    for refused in (
        lambda: rows.adelete(),
        lambda: rows.aupdate(reason="another"),
        lambda: rows.abulk_update([event], ["reason"]),
        event.asave,
        event.adelete,
    ):
        with pytest.raises(AuditError):
            await refused()


def test_many_events_can_be_added_at_once():
    AuditEvent.objects.bulk_create([AuditEvent(action=Action.READ) for _ in range(3)])

    assert AuditEvent.objects.count() == 3


@pytest.mark.parametrize(
    "statement",
    [
        f"UPDATE {TABLE} SET reason = 'another'",
        f"UPDATE {TABLE} SET id = id",
        f"DELETE FROM {TABLE}",
        f"INSERT INTO {TABLE} SELECT * FROM {TABLE} ON CONFLICT (id) DO UPDATE SET reason = ''",
        f"SET LOCAL agent_sessions.purge = 'on'; UPDATE {TABLE} SET reason = 'another'",
        f"SET LOCAL agent_sessions.mask = 'on'; UPDATE {TABLE} SET reason = '', actor = 'another'",
        f"SET LOCAL agent_sessions.mask = 'on'; DELETE FROM {TABLE}",
        f"WITH gone AS (DELETE FROM {TABLE} RETURNING *) SELECT COUNT(*) FROM gone",
    ],
)
def test_postgresql_refuses_even_plain_sql(event, statement):
    before = events()

    refused = pytest.raises(DatabaseError, match="only ever added")
    with refused, transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)

    assert events() == before


def test_after_a_purge_nothing_else_of_the_transaction_may_delete(event):
    aged(10)
    with transaction.atomic():
        assert audit.purge(timezone.now() - timedelta(days=5)) == 1
        with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(f"DELETE FROM {TABLE}")

    assert AuditEvent.objects.get() == event


@pytest.mark.django_db(transaction=True)
def test_flush_and_with_it_everybodys_transaction_test_case_still_works():
    audit.record(Action.READ)

    call_command("flush", interactive=False, verbosity=0)

    assert events() == []


# --- events survive what they speak of -------------------------------------------------------


def test_events_survive_the_session_they_speak_of(store, agent):
    store.append(agent, {"role": "user", "content": "a"})
    message = SessionMessage.objects.get()
    audit.record(Action.READ, session=agent.session, target=message.pk)
    before = events()

    store.delete("session-1")

    assert events()[:1] == before
    assert not Session.objects.exists()
    assert list(AuditEvent.objects.of_session(agent.session).values_list("action", flat=True)) == [
        "deleted",
        "read",
    ]


def test_a_user_who_acted_and_owned_can_be_deleted(store, ada, bob):
    session = store.open("s")
    Session.objects.filter(pk=session.id).update(owner=ada)
    audit.record(Action.READ, session=session.id, actor=ada)

    with audit.acting(bob):
        get_user_model().objects.filter(pk=ada.pk).delete()

    found = list(AuditEvent.objects.order_by("pk").values_list("action", "actor", "session"))
    assert found == [("read", "ada", session.id), ("deleted", "bob", session.id)]


def test_an_event_is_gone_with_the_transaction_of_what_it_tells_of(store):
    session = store.open("s")
    with transaction.atomic():
        legal_hold.hold(session.id, reason="a case")
        transaction.set_rollback(True)

    assert events() == []


# --- purge -----------------------------------------------------------------------------------


def test_a_purge_deletes_what_is_older_than_a_date_and_nothing_else(store, agent):
    store.append(agent, {"role": "user", "content": "a"})
    old, kept, new = aged(40), aged(20), aged(0)
    day = (timezone.now() - timedelta(days=30)).date().isoformat()

    assert purged("--before", day, "--dry-run") == "1 audit events would be deleted"
    assert AuditEvent.objects.count() == 3
    assert purged("--before", day) == "1 audit events were deleted"

    assert set(AuditEvent.objects.all()) == {kept, new}
    assert old not in AuditEvent.objects.all()
    assert SessionMessage.objects.count() == 1
    assert purged("--before", day) == "0 audit events were deleted"


def test_a_purge_takes_a_moment_too():
    moment = timezone.now() - timedelta(hours=2)
    old, kept = (
        AuditEvent.objects.create(
            action=Action.READ, created_at=moment + timedelta(minutes=minutes)
        )
        for minutes in (-1, 1)
    )

    purged("--before", moment.isoformat())

    assert list(AuditEvent.objects.all()) == [kept]
    assert old != kept


@pytest.mark.parametrize("day", ["2999-01-01", "yesterday", "2026-02-31", "2026-13-01T00:00"])
def test_a_purge_before_what_is_no_past_date_is_refused(event, day):
    with pytest.raises(CommandError, match="--before"):
        purged("--before", day)

    assert AuditEvent.objects.count() == 1


def test_a_purge_without_a_date_is_refused(event):
    with pytest.raises(CommandError):
        purged()

    assert AuditEvent.objects.count() == 1


# Only PostgreSQL has the trigger; what cannot run here is not collected.
if connection.vendor != "postgresql":
    del test_postgresql_refuses_even_plain_sql
    del test_after_a_purge_nothing_else_of_the_transaction_may_delete
