"""Prepare statements on PostgreSQL, so that they are planned once per connection.

Planning an append takes longer than running it. Django prepares no statements, because a pooler
that switches the server process between two statements would lose them. They are therefore prepared
only where the connection has its own server process: the process id from the login is the one that
runs a query. A pooler that shares processes returns another.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from django.db import Error
from django.db.backends.base.base import BaseDatabaseWrapper

from django_agent_sessions.sql import cursors

PREPARE_AFTER = 5
"""Number of statements before the first is prepared; short connections gain nothing."""

_NEVER = -1
_UNKNOWN_STATEMENT = "26000"

_runs: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()


def fetch_rows(
    connection: BaseDatabaseWrapper, sql: str, parameters: Sequence[Any]
) -> list[tuple[Any, ...]]:
    """Run a statement that is used repeatedly, prepared if possible, and return its rows."""
    rows = fetch_prepared(connection, sql, parameters)
    if rows is None:
        with cursors.quick_cursor(connection) as cursor:
            cursor.execute(sql, parameters)
            rows = cursor.fetchall()
    return rows


def fetch_prepared(
    connection: BaseDatabaseWrapper, sql: str, parameters: Sequence[Any]
) -> list[tuple[Any, ...]] | None:
    """Run a prepared statement and return its rows; None if it cannot be prepared here."""
    # A failed attempt would abort the transaction. A tool that replaces the cursor sees its own.
    if (
        connection.vendor != "postgresql"
        or connection.in_atomic_block
        or "cursor" in vars(connection)
    ):
        return None
    connection.ensure_connection()
    if not connection.autocommit or not _is_worth_it(connection):
        return None
    # As text, so that the types and the statement are the same whichever values are NULL.
    texts = [None if value is None else str(value) for value in parameters]
    raw = cursors.driver_connection(connection)
    try:
        if raw is not None:
            with connection.wrap_database_errors, _cursor_classes()[0](raw) as cursor:
                rows: list[tuple[Any, ...]] = cursor.execute(sql, texts).fetchall()
            return rows
        with _watched_cursor(connection) as cursor:
            cursor.execute(sql, texts)
            return list(cursor.fetchall())
    except Error as error:
        if getattr(error.__cause__, "sqlstate", None) != _UNKNOWN_STATEMENT:
            raise
        # Another program ran DISCARD ALL on this connection.
        _runs[connection.connection] = _NEVER
        return None


def _is_worth_it(connection: BaseDatabaseWrapper) -> bool:
    raw = connection.connection
    runs = _runs.get(raw, 0)
    if 0 <= runs <= PREPARE_AFTER:
        _runs[raw] = runs + 1
    if runs == PREPARE_AFTER and not _has_own_process(connection):
        _runs[raw] = _NEVER
    return runs >= PREPARE_AFTER and _runs[raw] != _NEVER


def _has_own_process(connection: BaseDatabaseWrapper) -> bool:
    from django.db.backends.postgresql.psycopg_any import is_psycopg3

    if not is_psycopg3:
        return False
    raw = connection.connection
    with connection.wrap_database_errors:
        same_process = raw.execute("SELECT pg_backend_pid()").fetchone()[0]
    return bool(same_process == raw.info.backend_pid)


def _watched_cursor(connection: BaseDatabaseWrapper) -> Any:
    """Return a preparing cursor, wrapped as Django wraps its own (logging, checks)."""
    connection.validate_thread_sharing()
    preparing, logged = _cursor_classes()
    if connection.queries_logged:
        return connection.make_debug_cursor(logged(connection.connection))
    return connection.make_cursor(preparing(connection.connection))


@functools.cache
def _cursor_classes() -> tuple[Any, Any]:
    import psycopg
    from psycopg import ClientCursor, Cursor

    class PreparingCursor(Cursor[Any]):
        def execute(self, query: Any, params: Any = None, **kwargs: Any) -> Any:
            raw = self.connection
            # Django disables preparing for the connection; it stays disabled for other statements.
            threshold, raw.prepare_threshold = raw.prepare_threshold, 0
            try:
                return super().execute(query, params, prepare=True, **kwargs)
            finally:
                raw.prepare_threshold = threshold

    class LoggedCursor(PreparingCursor):
        def execute(self, query: Any, params: Any = None, **kwargs: Any) -> Any:
            try:
                return super().execute(query, params, **kwargs)
            finally:
                # Fails on a lost connection, whose own error has to be raised.
                with contextlib.suppress(psycopg.Error):
                    text = ClientCursor(self.connection).mogrify(query, params)
                    # Django logs this attribute; it needs only the text, psycopg's type has more.
                    self._query = SimpleNamespace(query=text.encode())  # type: ignore[assignment] # see above

    return PreparingCursor, LoggedCursor
