"""Tools that watch Django's cursors see an append's statements; an append is undone as a whole."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
from django.db import OperationalError, connection, transaction
from django.db.backends.utils import CursorWrapper
from django.test.utils import CaptureQueriesContext

from django_agent_sessions.models import Session
from tests.threads import elsewhere

pytestmark = pytest.mark.django_db(transaction=True)

SEVERAL = [{"role": "user", "content": "Hello"}] * 3


@pytest.fixture
def watched(store, agent):
    """Call a function after which statements are watched, and return what was seen of appends."""
    # Connections and kept SQL are there before anyone watches.
    store.append_many(agent, SEVERAL)

    def watch(seen: list[str]) -> str:
        store.append_many(agent, SEVERAL)
        store.append(agent, SEVERAL[0], count=False)
        return "\n".join(seen)

    return watch


def is_complete(seen: str) -> bool:
    session, message = Session._meta.db_table, "agent_sessions_sessionmessage"
    return seen.count(f"INSERT INTO {message}") >= 2 and f"UPDATE {session}" in seen


def test_execute_wrappers_see_every_statement(watched):
    seen: list[str] = []

    def note(execute, sql, params, many, context):
        seen.append(sql)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        assert is_complete(watched(seen))


def test_the_log_of_queries_has_every_statement(watched):
    with CaptureQueriesContext(connection) as captured:
        watched([])

    told = [query["sql"] for query in captured.captured_queries]
    assert is_complete("\n".join(told))
    if connection.vendor == "sqlite":
        assert told[0].startswith("BEGIN")
        assert "COMMIT" in told


def test_debug_logs_every_statement(watched, settings):
    settings.DEBUG = True
    connection.queries_log.clear()
    watched([])

    assert is_complete("\n".join(query["sql"] for query in connection.queries))


def test_a_tool_that_replaces_the_connections_cursor_sees_every_statement(watched, monkeypatch):
    # As Django Debug Toolbar does.
    seen: list[str] = []
    real = connection.cursor

    class Noting:
        def __init__(self, cursor):
            self._cursor = cursor

        def __getattr__(self, name):
            return getattr(self._cursor, name)

        def __enter__(self):
            return self

        def __exit__(self, *error):
            self._cursor.close()

        def execute(self, sql, params=None):
            seen.append(sql)
            return self._cursor.execute(sql, params)

    monkeypatch.setattr(connection, "cursor", lambda: Noting(real()), raising=False)
    assert is_complete(watched(seen))


@pytest.mark.parametrize("name", ["execute"])
def test_a_tool_that_replaces_the_wrappers_methods_sees_every_statement(watched, monkeypatch, name):
    # As Sentry does.
    seen: list[str] = []
    real = getattr(CursorWrapper, name)

    def note(self, sql, *arguments):
        seen.append(sql)
        return real(self, sql, *arguments)

    monkeypatch.setattr(CursorWrapper, "execute", note)
    assert is_complete(watched(seen))


@pytest.fixture
def refused_counters():
    """Return a block in which no counter of a session can be updated."""
    if connection.vendor != "sqlite":
        pytest.skip("others count in the same statement")

    @contextmanager
    def refused():
        with connection.cursor() as cursor:
            cursor.execute(
                f"CREATE TRIGGER refused BEFORE UPDATE ON {Session._meta.db_table} "
                "BEGIN SELECT RAISE(ABORT, 'database is full'); END"
            )
        try:
            yield
        finally:
            with connection.cursor() as cursor:
                cursor.execute("DROP TRIGGER refused")

    return refused


def test_an_append_whose_counters_cannot_be_updated_is_undone(store, agent, refused_counters):
    with refused_counters():
        for messages in SEVERAL[:1], SEVERAL:
            with pytest.raises(Exception, match=r"does not exist|database is full"):
                store.append_many(agent, messages)
            with transaction.atomic():
                with pytest.raises(Exception, match=r"does not exist|database is full"):
                    store.append_many(agent, messages)
                assert store.payloads(agent) == []
        # The connection is as before.
        assert not connection.connection.in_transaction
    store.append_many(agent, SEVERAL)
    assert len(store.payloads(agent)) == len(SEVERAL)


def test_an_append_that_opens_the_connection_is_undone_too(store, agent, refused_counters):
    with refused_counters():
        error = elsewhere(lambda: store.append_many(agent, SEVERAL))

    assert isinstance(error, Exception)
    assert store.payloads(agent) == []


@pytest.mark.skipif(connection.vendor != "sqlite", reason="only SQLite has one writer")
def test_an_append_waits_for_a_locked_file(store, agent, settings):
    """An error of the transaction's first statement leaves no transaction behind."""
    import sqlite3

    settings.AGENT_SESSIONS = {"RETRY_SECONDS": 0.01}
    other = sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None, uri=True)
    other.execute("BEGIN IMMEDIATE")
    try:
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA busy_timeout = 1")
        with pytest.raises(OperationalError, match="locked"):
            store.append_many(agent, SEVERAL)
    finally:
        other.execute("ROLLBACK")
        other.close()
    assert len(store.append_many(agent, SEVERAL)) == len(SEVERAL)
    connection.close()
