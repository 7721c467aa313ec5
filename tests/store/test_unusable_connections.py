"""What happens on a connection that the server ended, or that its driver refuses."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.utils import ProgrammingError

from django_agent_sessions.values.records import AgentState, Usage

from .cutting import user

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("reconnected")]


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
    # Not through a pooler, which could give it the very process that it is to end.
    settings = administrator.settings_dict
    settings["PORT"] = os.environ.get("PGDIRECTPORT", settings["PORT"])
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
        lambda: store.messages.update(agent, 0, user("A")),
        lambda: store.messages.redact(agent, 1, user("B")),
        lambda: store.agents.update(agent, AgentState(state={"a": 1})),
        lambda: store.branches.rewind(agent, 3),
    ):
        end_by_the_server()
        write()

    assert store.payloads(agent) == [user("A"), user("B"), user("c"), user("d")]
    assert store.agents.open(session).data.state == {"a": 1}


def test_a_pop_on_a_connection_that_the_server_ended_is_not_in_doubt(store, agent):
    store.append_many(agent, [user("a"), user("b")])
    end_by_the_server()

    assert store.pop(agent) == user("b")
    assert store.payloads(agent) == [user("a")]


@contextmanager
def held_by_another_thread() -> Iterator[None]:
    """Lets another thread wait for an answer on the same connection."""
    raw = connection.connection
    with ThreadPoolExecutor(1) as other:
        waiting = other.submit(raw.query, "SELECT SLEEP(0.5)")
        while not refuses(raw):
            assert not waiting.done()
        yield


def refuses(raw: Any) -> bool:
    """Tells whether another thread uses a connection of mysqlclient."""
    try:
        raw.affected_rows()
    except raw.ProgrammingError:
        return True
    return False


@contextmanager
def answer_never_read() -> Iterator[None]:
    """Leaves an answer unread, as whoever is interrupted does."""
    connection.connection.query("SELECT 1")
    yield


@pytest.mark.skipif(connection.vendor != "mysql", reason="only mysqlclient guards its connections")
@pytest.mark.parametrize("unusable", [held_by_another_thread, answer_never_read])
def test_a_connection_that_its_driver_refuses_is_replaced(store, session, agent, unusable):
    store.append(agent, user("a"))
    popped = []
    for deed in (
        lambda: store.append(agent, user("b")),
        lambda: store.append_many(agent, [user("c"), user("d")]),
        lambda: store.payloads(agent),
        lambda: store.messages.update(agent, 0, user("A")),
        lambda: store.messages.redact(agent, 1, user("B")),
        lambda: store.agents.update(agent, AgentState(state={"a": 1})),
        lambda: popped.append(store.pop(agent)),
        lambda: store.branches.rewind(agent, 1),
    ):
        with unusable():
            deed()

    assert popped == [user("d")]
    assert store.payloads(agent) == [user("A"), user("B")]
    assert store.agents.open(session).data.state == {"a": 1}
    # The copies that the rewind left on a branch of their own do not count.
    assert store.sessions.usage("session-1") == Usage(3)


@pytest.mark.skipif(connection.vendor != "mysql", reason="only mysqlclient guards its connections")
@pytest.mark.parametrize("unusable", [held_by_another_thread, answer_never_read])
def test_in_a_callers_transaction_it_is_the_callers_to_see(store, agent, unusable):
    def write_on_a_refused_one() -> None:
        store.append(agent, user("gone with the transaction"))
        with unusable():
            store.append(agent, user("gone too"))

    with pytest.raises(ProgrammingError), transaction.atomic():
        write_on_a_refused_one()
    connection.close()
    assert store.payloads(agent) == []
