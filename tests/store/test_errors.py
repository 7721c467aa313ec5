"""Errors and logs carry ids and say what to do; never what was said."""

from __future__ import annotations

from contextlib import nullcontext
from uuid import uuid4

import pytest
from django.core.exceptions import ObjectDoesNotExist
from django.db import connection, transaction
from django.db.utils import DatabaseError

from django_agent_sessions.exceptions import (
    AgentSessionsError,
    PayloadError,
    SessionConflictError,
    SessionNotFoundError,
)
from django_agent_sessions.models import SessionAgent, SessionMessage
from django_agent_sessions.store import SessionStore
from django_agent_sessions.testing import error_texts
from django_agent_sessions.values.records import AgentState

SECRET = "plantedsecret"

pytestmark = pytest.mark.django_db(transaction=True)


def user(text: str) -> dict:
    return {"role": "user", "content": text}


@pytest.fixture
def strict_column():
    """A rule of the database's own that a row can break: PostgreSQL then prints the row."""
    table, name = "agent_sessions_sessionmessage", "test_nothing_forbidden"
    if connection.vendor == "sqlite":
        rule = (
            f"CREATE TRIGGER {name} BEFORE INSERT ON {table} WHEN NEW.text LIKE 'forbidden%' "
            "BEGIN SELECT RAISE(ABORT, 'CHECK constraint failed: text'); END",
            f"DROP TRIGGER {name}",
        )
    else:
        rule = (
            f"ALTER TABLE {table} ADD CONSTRAINT {name} CHECK (text NOT LIKE 'forbidden%')",
            f"ALTER TABLE {table} DROP CONSTRAINT {name}",
        )
    with connection.cursor() as cursor:
        cursor.execute(rule[0])
    yield
    with connection.cursor() as cursor:
        cursor.execute(rule[1])


def test_the_database_itself_does_tell_the_content(store, agent, strict_column):
    """What is guarded against is real, at least on PostgreSQL."""
    row = SessionMessage(
        session_id=agent.session, agent_id=agent.id, message_id=0, text=f"forbidden {SECRET}"
    )
    with pytest.raises(DatabaseError) as refusal:
        row.save(force_insert=True)

    assert (SECRET in error_texts(refusal.value)) == (connection.vendor == "postgresql")


@pytest.mark.parametrize("joined", [False, True])
def test_what_the_database_refuses_is_one_of_our_errors_without_the_row(
    store, agent, strict_column, joined, caplog
):
    forbidden = user(f"forbidden {SECRET}")
    with caplog.at_level("DEBUG"):
        for write in (
            lambda: store.append(agent, forbidden, count=False),
            lambda: store.append_many(agent, [user("a"), forbidden], count=False),
        ):
            with (
                pytest.raises(AgentSessionsError) as refusal,
                transaction.atomic() if joined else nullcontext(),
            ):
                write()
            assert SECRET not in error_texts(refusal.value)
            assert refusal.value.__cause__ is None
            assert "agent 'default'" in str(refusal.value)

    ours = [r for r in caplog.records if r.name.startswith("django_agent_sessions")]
    assert SECRET not in "".join(record.getMessage() for record in ours)
    store.append(agent, user("b"))
    assert store.payloads(agent) == [user("b")]


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("count", [1, 2])
def test_a_position_that_is_taken_each_time_is_a_conflict_without_the_row(
    store, agent, settings, joined, count
):
    settings.AGENT_SESSIONS = {"WRITE_RETRIES": 2}
    store.append(agent, user("a"))
    tries = []

    def somebody_was_faster(execute, sql, params, many, context):
        if ", n.next" in sql:
            # As if position 0 had been written after this statement looked for the last one.
            tries.append(sql)
            sql = sql.replace(", n.next", ", 0")
        return execute(sql, params, many, context)

    with transaction.atomic() if joined else nullcontext():
        with (
            pytest.raises(SessionConflictError, match="conflicted with another writer") as refusal,
            connection.execute_wrapper(somebody_was_faster),
        ):
            store.append_many(agent, [user(SECRET)] * count)
        store.append(agent, user("b"))

    assert len(tries) == 3
    assert SECRET not in error_texts(refusal.value)
    assert refusal.value.__context__ is None
    assert store.payloads(agent) == [user("a"), user("b")]


def test_a_row_that_refers_to_nothing_is_not_found_without_the_row(store, session, agent):
    store.delete("session-1")

    for write in (
        lambda: store.append(agent, user(SECRET)),
        lambda: store.agents.create(session, "a", data=AgentState(state={"a": SECRET})),
        lambda: store.multi_agents.create(session, "m", {"a": SECRET}),
        lambda: SessionStore(owner=987654).open("s", title=SECRET, metadata={"a": SECRET}),
    ):
        with pytest.raises(SessionNotFoundError) as refusal:
            write()
        assert SECRET not in error_texts(refusal.value)


def test_no_refusal_of_a_value_tells_it(store, agent, caplog):
    with caplog.at_level("DEBUG", "django_agent_sessions"):
        for payload in (
            {"role": "user", "content": SECRET, "n": object()},
            {"role": "user", "content": SECRET, SECRET: {(1,): SECRET}},
            {"role": "user", "content": SECRET, "n": 10**5000},
        ):
            for write in (
                lambda payload=payload: store.append(agent, payload),
                lambda payload=payload: store.messages.update(agent, 0, payload),
                lambda payload=payload: store.messages.redact(agent, 0, payload),
                lambda payload=payload: store.agents.update(agent, AgentState(state=payload)),
            ):
                with pytest.raises(PayloadError) as refusal:
                    write()
                assert SECRET not in error_texts(refusal.value)

    assert SECRET not in caplog.text


def test_a_record_of_a_corrupt_row_does_not_show_it(store, agent, caplog):
    store.append(agent, user("a"))
    store.append(agent, user("b"))
    SessionMessage.objects.filter(message_id=1).update(text=SECRET)
    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE agent_sessions_sessionmessage SET message = '{{{SECRET}' WHERE message_id = 1"
        )

    assert store.payloads(agent) == [user("a")]
    assert "message 1 of agent default" in caplog.text
    assert SECRET not in caplog.text
    assert SECRET not in repr(list(SessionAgent.objects.values()))


@pytest.mark.parametrize(
    "use",
    [
        lambda store, agent: store.append(agent, {"role": "user", "content": "Hello"}),
        lambda store, agent: store.append_many(agent, [{"role": "user", "content": "Hello"}]),
        lambda store, agent: store.payloads(agent),
        lambda store, agent: store.messages.list(agent),
        lambda store, agent: store.messages.latest(agent, 1),
        lambda store, agent: store.branches.list(agent),
        lambda store, agent: store.branches.find(agent, "main"),
    ],
)
def test_a_session_in_place_of_its_agent_says_how_to_get_the_agent(store, session, use):
    for wrong in (session, session.session_id, session.id, None):
        with pytest.raises(
            TypeError, match=rf"not {type(wrong).__name__}: use store\.agents\.open"
        ):
            use(store, wrong)


def test_a_session_that_is_missing_can_be_answered_as_any_missing_object(store, db):
    with pytest.raises(ObjectDoesNotExist):
        store.get("nobody's")


def test_only_the_log_says_that_a_session_may_be_another_owners(db, django_user_model, caplog):
    ada, bob = (django_user_model.objects.create_user(name) for name in ("ada", "bob"))
    SessionStore(owner=ada).open("hers")
    for name in ("hers", "neither"):
        with pytest.raises(SessionNotFoundError) as refusal:
            SessionStore(owner=bob).get(name)
        assert str(refusal.value) == f"session '{name}' does not exist"
        assert f"session '{name}' in namespace '' was not found for owner {bob.pk}" in caplog.text
    assert caplog.text.count("does not exist, or has another owner") == 2


def test_a_uuid_names_the_session_that_its_string_names(store, db):
    key = uuid4()
    session = store.open(key)
    assert (session.session_id, store.get(str(key)).id) == (str(key), session.id)
    assert store.get(key) == store.get(str(key))
    store.agents.open(session, key)
    assert [agent.agent_id for agent in store.agents.list(session)] == [str(key)]
    assert store.delete(key)
