from __future__ import annotations

import threading

import pytest
from django.db import Error, connection, connections, transaction

from django_agent_sessions.exceptions import SessionConflictError, SessionNotFoundError
from django_agent_sessions.models import Session
from django_agent_sessions.store import SessionStore

pytestmark = pytest.mark.django_db(transaction=True)


def user(text: str) -> dict:
    return {"role": "user", "content": text}


def test_a_conversation_goes_with_its_transaction(store):
    with transaction.atomic():
        agent = store.agents.open(store.open("s"))
        store.append_many(agent, [user("a"), user("b")])
        store.append_many(agent, [user("c")] * 450)
        assert len(store.payloads(agent)) == 452
        transaction.set_rollback(True)

    assert store.find("s") is None


def test_a_savepoint_takes_only_what_was_written_in_it(store, agent):
    with transaction.atomic():
        store.append(agent, user("a"))
        with transaction.atomic():
            store.append(agent, user("b"))
            transaction.set_rollback(True)
        store.append(agent, user("c"))

    assert store.payloads(agent) == [user("a"), user("c")]
    assert [record.message_id for record in store.messages.list(agent)] == [0, 1]


def test_a_name_taken_by_an_open_transaction_is_found_or_made_afterwards(store):
    """Two requests open one session at once; the second waits for the first."""
    opened = threading.Event()
    found: list[object] = []

    def second() -> None:
        opened.wait(10)
        try:
            found.append(SessionStore().open("s").id)
        finally:
            connections.close_all()

    thread = threading.Thread(target=second)
    thread.start()
    with transaction.atomic():
        first = store.open("s")
        opened.set()
        thread.join(0.3)
    thread.join(20)

    assert found == [first.id]
    assert Session.objects.count() == 1


def test_an_append_waits_for_an_open_transaction_and_goes_behind_it(store, agent):
    appended = threading.Event()

    def second() -> None:
        appended.wait(10)
        try:
            SessionStore().append(agent, user("second"))
        finally:
            connections.close_all()

    thread = threading.Thread(target=second)
    thread.start()
    with transaction.atomic():
        store.append(agent, user("first"))
        appended.set()
        thread.join(0.3)
        store.append(agent, user("still first"))
    thread.join(20)

    assert store.payloads(agent) == [user("first"), user("still first"), user("second")]


def test_a_conflict_in_a_transaction_leaves_the_transaction_usable(store, agent):
    with transaction.atomic():
        store.open("before")
        with pytest.raises(SessionConflictError):
            store.append(agent, user("a"), expected=7)
        with pytest.raises(SessionConflictError):
            store.create("before")
        assert not connection.needs_rollback
        store.open("after")

    assert store.find("before") is not None
    assert store.find("after") is not None


def test_crossing_appends_of_two_transactions_end(store):
    """Two transactions that write to two conversations in opposite order cannot both succeed
    on every database, but each message is there once or its writer was told.
    """
    agents = [store.agents.open(store.open(name)) for name in ("one", "two")]
    barrier = threading.Barrier(2, timeout=10)
    told: list[str] = []

    def write(name: str, order: list) -> None:
        try:
            with transaction.atomic():
                store.append(order[0], user(name))
                if connection.vendor != "sqlite":
                    barrier.wait()
                store.append(order[1], user(name))
        except Error:
            told.append(name)
        finally:
            connections.close_all()

    threads = [
        threading.Thread(target=write, args=("x", agents)),
        threading.Thread(target=write, args=("y", agents[::-1])),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(40)

    expected = sorted({"x", "y"} - set(told))
    for agent in agents:
        assert sorted(message["content"] for message in store.payloads(agent)) == expected
    assert len(told) <= 1


def first_of(verb: str, table: str, meanwhile):
    """Does something right before the first statement of a kind: another process is faster."""
    met: list[str] = []

    def execute_after(execute, sql, params, many, context):
        if not met and sql.removeprefix("WITH written AS (").startswith(verb) and table in sql:
            met.append(sql)
            meanwhile()
        return execute(sql, params, many, context)

    return connection.execute_wrapper(execute_after)


def test_a_session_that_somebody_makes_meanwhile_is_found_or_refused(store, ada, bob):
    with first_of("INSERT", "session", lambda: store.open("s")):
        found = store.open("s")
    assert found == store.get("s")

    hers = SessionStore(owner=ada)
    with first_of("INSERT", "session", lambda: hers.open("t")):
        assert hers.open("t").owner_id == ada.pk
    with (
        pytest.raises(SessionNotFoundError),
        first_of("INSERT", "session", lambda: hers.open("u")),
    ):
        SessionStore(owner=bob).open("u")
    assert hers.get("u").owner_id == ada.pk


def test_an_agent_that_somebody_makes_meanwhile_is_found(store, session):
    with first_of("INSERT", "sessionagent", lambda: store.agents.open(session, "a")):
        found = store.agents.open(session, "a")

    assert found == store.agents.find(session, "a")
    assert len(store.agents.list(session)) == 1


def test_a_conversation_that_is_deleted_meanwhile_is_not_found(store, session, agent):
    with (
        pytest.raises(SessionNotFoundError),
        first_of("INSERT", "sessionmessage", lambda: store.delete("session-1")),
    ):
        store.append(agent, user("late"), count=False)
    assert store.find("session-1") is None
