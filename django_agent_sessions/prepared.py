"""Statements that PostgreSQL plans once per connection instead of at each use.

Planning an append takes longer than running it. Django prepares no statements, because a pooler
that changes the server's process between two statements would lose them. So this is done only
where the connection certainly has a server's process of its own: the process that the server
named at the login is the one that answers. Every pooler that shares processes names another.
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

AFTER = 5
"""How many statements a connection runs in the ordinary way first: a short one gains nothing."""

_NEVER = -1
_UNKNOWN_STATEMENT = "26000"

_runs: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()


def fetch(
    connection: BaseDatabaseWrapper, sql: str, parameters: Sequence[Any]
) -> list[tuple[Any, ...]] | None:
    """Runs a statement that is prepared on the server, if that is possible here."""
    # What fails in a transaction would take it along, so it is not the place to try things.
    if connection.vendor != "postgresql" or connection.in_atomic_block:
        return None
    connection.ensure_connection()
    if not connection.autocommit or not _is_worth_it(connection):
        return None
    # As text all have one type, so that it is one statement whichever of them are NULL.
    texts = [None if value is None else str(value) for value in parameters]
    try:
        with _cursor(connection) as cursor:
            cursor.execute(sql, texts)
            return list(cursor.fetchall())
    except Error as error:
        if getattr(error.__cause__, "sqlstate", None) != _UNKNOWN_STATEMENT:
            raise
        # Somebody ran DISCARD ALL.
        _runs[connection.connection] = _NEVER
        return None


def _is_worth_it(connection: BaseDatabaseWrapper) -> bool:
    raw = connection.connection
    runs = _runs.get(raw, 0)
    if 0 <= runs <= AFTER:
        _runs[raw] = runs + 1
    if runs == AFTER and not _has_own_process(connection):
        _runs[raw] = _NEVER
    return runs >= AFTER and _runs[raw] != _NEVER


def _has_own_process(connection: BaseDatabaseWrapper) -> bool:
    from django.db.backends.postgresql.psycopg_any import is_psycopg3

    if not is_psycopg3:
        return False
    raw = connection.connection
    with connection.wrap_database_errors:
        answers = raw.execute("SELECT pg_backend_pid()").fetchone()[0]
    return bool(answers == raw.info.backend_pid)


def _cursor(connection: BaseDatabaseWrapper) -> Any:
    """Makes a cursor that prepares, wrapped as Django wraps its own: logged, counted, guarded."""
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
            # Django has switched it off for the connection, and it stays off for all else.
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
                # A connection that is lost cannot say it, and its loss is what has to be raised.
                with contextlib.suppress(psycopg.Error):
                    text = ClientCursor(self.connection).mogrify(query, params)
                    # Where Django looks for what it logs: it needs the text only, and psycopg's own
                    # type says more.
                    self._query = SimpleNamespace(query=text.encode())  # type: ignore[assignment] # see above

    return PreparingCursor, LoggedCursor
