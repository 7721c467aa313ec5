"""What happens when a connection breaks while somebody writes.

The faults are injected into the real thing: the statement really runs and its connection is
really cut, on the client's side or on the server's, before or after the work was done.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction
from django.db.utils import Error

from django_agent_sessions.exceptions import SessionConflictError
from django_agent_sessions.records import AgentState, NewMessage, Usage

pytestmark = pytest.mark.django_db(transaction=True)


def user(text: str) -> dict:
    return {"role": "user", "content": text}


def cut_the_wire() -> None:
    """Breaks the connection as a network does: neither side is told."""
    if connection.vendor != "sqlite":
        with socket.socket(fileno=os.dup(connection.connection.fileno())) as wire:
            wire.shutdown(socket.SHUT_RDWR)


@contextmanager
def cut(verb: str, *, done: bool) -> Iterator[None]:
    """Cuts the connection at the first statement that begins with a verb.

    Args:
        verb: Such as ``INSERT``.
        done: Whether the statement is done before; else it never reaches the server.
    """
    met: list[str] = []

    def execute_and_cut(execute: Callable[..., Any], sql: str, params: Any, many: bool, context):
        if met or not sql.startswith(verb):
            return execute(sql, params, many, context)
        met.append(sql)
        if done:
            execute(sql, params, many, context)
            if context["cursor"].description:
                # SQLite does the work as its rows are fetched.
                context["cursor"].fetchall()
        cut_the_wire()
        if not done and connection.vendor != "sqlite":
            return execute(sql, params, many, context)
        raise OperationalError("the answer did not arrive")

    with connection.execute_wrapper(execute_and_cut):
        yield
    assert met


@contextmanager
def commit_lost() -> Iterator[None]:
    """Cuts the connection after the first commit is done and before its answer is there."""
    raw_commit = connection._commit  # type: ignore[attr-defined]

    def commit_and_cut() -> None:
        connection._commit = raw_commit  # type: ignore[attr-defined]
        raw_commit()
        cut_the_wire()
        raise OperationalError("the answer did not arrive")

    connection._commit = commit_and_cut  # type: ignore[attr-defined]
    try:
        yield
    finally:
        connection._commit = raw_commit  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def reconnected(transactional_db):
    """Lets no test inherit a broken connection."""
    yield
    connection.close()


@pytest.mark.parametrize("done", [True, False])
@pytest.mark.parametrize("count", [1, 3])
def test_a_lost_answer_to_an_append_duplicates_and_loses_nothing(store, agent, done, count):
    store.append(agent, user("before"))
    batch = [user(str(number)) for number in range(count)]

    with cut("INSERT", done=done):
        records = store.append_many(agent, batch)

    assert [record.message_id for record in records] == list(range(1, count + 1))
    assert store.payloads(agent) == [user("before"), *batch]
    assert store.usage("session-1") == Usage(count + 1)


def test_a_lost_answer_to_the_commit_of_a_long_batch(store, agent):
    batch = [user(str(number)) for number in range(450)]

    with commit_lost():
        records = store.append_many(agent, batch)

    assert [record.message_id for record in records] == list(range(450))
    assert store.payloads(agent) == batch


def test_a_batch_that_broke_off_half_way_is_written_once(store, agent):
    batch = [user(str(number)) for number in range(450)]
    met = []

    def cut_the_second(execute, sql, params, many, context):
        if sql.startswith("INSERT"):
            met.append(sql)
            if len(met) == 2:
                cut_the_wire()
                raise OperationalError("the answer did not arrive")
        return execute(sql, params, many, context)

    with connection.execute_wrapper(cut_the_second):
        store.append_many(agent, batch)

    assert store.payloads(agent) == batch


@pytest.mark.parametrize("done", [True, False])
def test_a_connection_that_breaks_twice_is_the_callers_to_see_and_to_retry(store, agent, done):
    new = NewMessage(user("a"))
    with (
        pytest.raises(OperationalError),
        cut("INSERT", done=done),
        cut("SELECT", done=False),
    ):
        store.append(agent, new)
    connection.close()

    assert len(store.payloads(agent)) == (1 if done else 0)
    assert store.append(agent, new, again=True).message_id == 0
    assert store.payloads(agent) == [user("a")]


@pytest.mark.parametrize("done", [True, False])
def test_a_lost_answer_to_making_something_makes_it_once(store, done):
    with cut("INSERT", done=done):
        session = store.create("s")
    with cut("INSERT", done=done):
        agent = store.create_agent(session, "a")
    with cut("INSERT", done=done):
        store.create_multi_agent(session, "m", {"a": 1})

    assert store.get("s") == session
    assert [found.id for found in store.list_agents(session)] == [agent.id]
    assert store.read_multi_agent(session, "m").state == {"a": 1}


@pytest.mark.parametrize("done", [True, False])
def test_a_lost_answer_to_an_update_leaves_it_done(store, session, agent, done):
    store.append(agent, user("a"))
    with cut("UPDATE", done=done):
        store.update_message(agent, 0, user("b"))
    with cut("UPDATE", done=done):
        store.update_agent(agent, AgentState(state={"a": 1}))

    assert store.payloads(agent) == [user("b")]
    assert store.open_agent(session).data.state == {"a": 1}


def test_a_lost_answer_to_a_redaction_leaves_it_done(store, agent):
    store.append(agent, user("plantedsecret"))
    with commit_lost():
        store.redact_message(agent, 0, user("[gone]"))
    with cut("UPDATE", done=False):
        store.redact_message(agent, 0, user("[again]"))

    assert store.payloads(agent) == [user("[again]")]


def test_a_lost_answer_to_a_turn_never_counts_tokens_twice(store, session):
    with cut("UPDATE", done=True):
        store.touch(session.id, Usage(1, 10, 5))

    assert store.usage("session-1") == Usage(1, 10, 5)


@pytest.mark.parametrize("lose", [commit_lost, lambda: cut("DELETE", done=False)])
def test_a_lost_answer_to_a_deletion_still_says_that_there_was_one(store, session, agent, lose):
    store.append(agent, user("a"))
    with lose():
        assert store.delete("session-1") is True

    assert store.find("session-1") is None
    assert store.delete("session-1") is False


@pytest.mark.parametrize("done", [True, False])
def test_a_lost_answer_to_a_pop_never_takes_a_second_message(store, agent, done):
    store.append_many(agent, [user("a"), user("b"), user("c")])

    with (
        pytest.raises(SessionConflictError, match="a message may have been taken"),
        cut("DELETE", done=done),
    ):
        store.pop(agent)

    assert len(store.payloads(agent)) == (2 if done else 3)
    assert store.pop(agent) == (user("b") if done else user("c"))


def test_in_a_transaction_a_lost_connection_is_the_callers_to_see(store, agent):
    store.append(agent, user("before"))

    def write_and_lose() -> None:
        store.append(agent, user("gone with the transaction"))
        with cut("INSERT", done=True):
            store.append(agent, user("gone too"))

    with pytest.raises(Error), transaction.atomic():
        write_and_lose()
    assert store.payloads(agent) == [user("before")]


# --- the server's side -----------------------------------------------------------------------


def end_by_the_server() -> None:
    """Ends the connection as an administrator, a failover or a restart would."""
    if connection.vendor == "sqlite":
        connection.close()
        return
    postgresql = connection.vendor == "postgresql"
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()" if postgresql else "SELECT CONNECTION_ID()")
        (number,) = cursor.fetchone()
    administrator = connection.copy()
    try:
        with administrator.cursor() as cursor:
            if postgresql:
                cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [number])
            else:
                cursor.execute(f"KILL CONNECTION {number:d}")
    finally:
        administrator.close()


def test_a_write_on_a_connection_that_the_server_ended_is_done_once(store, session, agent):
    store.append(agent, user("a"))
    for write in (
        lambda: store.append(agent, user("b")),
        lambda: store.append_many(agent, [user("c"), user("d")]),
        lambda: store.update_message(agent, 0, user("A")),
        lambda: store.redact_message(agent, 1, user("B")),
        lambda: store.update_agent(agent, AgentState(state={"a": 1})),
    ):
        end_by_the_server()
        write()

    assert store.payloads(agent) == [user("A"), user("B"), user("c"), user("d")]
    assert store.open_agent(session).data.state == {"a": 1}


def test_a_pop_on_a_connection_that_the_server_ended_is_not_in_doubt(store, agent):
    store.append_many(agent, [user("a"), user("b")])
    end_by_the_server()

    assert store.pop(agent) == user("b")
    assert store.payloads(agent) == [user("a")]
