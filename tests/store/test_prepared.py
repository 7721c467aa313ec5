"""Appends are planned once per connection on PostgreSQL, wherever that is safe."""

from __future__ import annotations

import os

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from django_agent_sessions.sql import prepared_statements

pytestmark = pytest.mark.django_db(transaction=True)

ON_POSTGRESQL = connection.vendor == "postgresql"
ENOUGH = prepared_statements.PREPARE_AFTER + 3


@pytest.fixture(autouse=True)
def new_connection(db):
    connection.close()
    yield
    connection.close()


def on_the_server() -> int:
    """How many appends are prepared on this connection's server process."""
    if not ON_POSTGRESQL:
        return 0
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE 'INSERT%'")
        return int(cursor.fetchone()[0])


def append(store, agent, count: int = ENOUGH) -> list[int]:
    return [store.append(agent, {"n": n}, count=False).message_id for n in range(count)]


def test_one_statement_is_prepared_for_all_kinds_of_messages(store, agent):
    append(store, agent)
    spoken = {"role": "assistant", "content": "Hello\x00 “\ud800”", "metadata": {"n": None}}
    store.append(agent, spoken, count=False)

    # A pooler in transaction mode is found out: nothing would be there the next time.
    pooled = "PGDIRECTPORT" in os.environ
    assert on_the_server() == (1 if ON_POSTGRESQL and not pooled else 0)
    assert store.messages.latest(agent, 1)[0].message == spoken
    assert [m.message_id for m in store.messages.list(agent)] == list(range(ENOUGH + 1))


def test_prepared_statements_are_counted_and_logged_as_any_other(store, agent):
    append(store, agent)

    with CaptureQueriesContext(connection) as captured:
        append(store, agent, 1)

    (told,) = captured.captured_queries
    # With what was sent, as Django logs its own.
    assert told["sql"].startswith(("INSERT", "QUERY = 'INSERT"))
    assert str(agent.id) in told["sql"] or agent.id.hex in told["sql"]


def test_a_short_connection_prepares_nothing(store, agent):
    connection.close()
    append(store, agent, prepared_statements.PREPARE_AFTER)

    assert on_the_server() == 0


def test_nothing_is_prepared_in_a_transaction(store, agent):
    with transaction.atomic():
        append(store, agent)

        assert on_the_server() == 0


def test_nothing_is_prepared_where_another_process_answers(store, agent, monkeypatch):
    # As behind a pooler that shares the server's processes between its clients.
    monkeypatch.setattr(prepared_statements, "_has_own_process", lambda connection: False)

    assert append(store, agent) == list(range(ENOUGH))
    assert on_the_server() == 0


def test_appending_goes_on_after_the_server_forgot(store, agent):
    append(store, agent)
    if ON_POSTGRESQL:
        with connection.cursor() as cursor:
            cursor.execute("DISCARD ALL")

    assert append(store, agent) == list(range(ENOUGH, 2 * ENOUGH))
    assert on_the_server() == 0


def test_the_connection_is_left_as_it_was(store, agent):
    append(store, agent)
    threshold = getattr(connection.connection, "prepare_threshold", None)

    append(store, agent, 1)

    # What the project chose for the connection is as it was.
    assert getattr(connection.connection, "prepare_threshold", None) == threshold
