"""Quoted names, cursors and values for raw SQL."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from types import FunctionType
from typing import Any

import django
from django.db import models, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper

from django_agent_sessions.models import SessionMessage
from django_agent_sessions.models.shared_text import with_text
from django_agent_sessions.models.stored_text import first_text
from django_agent_sessions.sql import sqlite_deletions

_messages = SessionMessage._meta


def column_name(field: models.Field[Any, Any]) -> str:
    """Return the unquoted column name of a field."""
    return str(field.column)


def quote_names(connection: BaseDatabaseWrapper, sql: str) -> str:
    """Replace ``{messages}`` and ``{<column>}`` with quoted names of the table of messages."""
    quote = connection.ops.quote_name
    columns = {name: quote(name) for name in map(column_name, _messages.concrete_fields)}
    return sql.format(messages=quote(_messages.db_table), **columns)


def visible_text(connection: BaseDatabaseWrapper) -> str:
    """Return the SQL of a message's visible text, for :func:`quote_names`."""
    columns = {
        "redact_message": "{redact_message}",
        "message": with_text(connection.vendor, "{message}", "{text}"),
    }
    get: Any = _messages.get_field
    return first_text(connection, "{id}", {get(name): sql for name, sql in columns.items()})


def driver_connection(connection: BaseDatabaseWrapper) -> Any | None:
    """Return the driver's connection if nothing watches Django's cursors; otherwise None.

    Django's cursor takes as long as a small statement. It is needed for ``execute_wrapper``, for
    the log of queries, for the backends of others, and for tools that replace its methods.
    """
    kind: Any = type(connection)
    functions = kind.cursor, kind._cursor, kind.create_cursor, kind.make_cursor
    if (
        connection.queries_logged
        or connection.needs_rollback
        or connection.execute_wrappers not in _OWN_WRAPPERS
        or "cursor" in vars(connection)
        or not _are_djangos(*functions, CursorWrapper.execute)
    ):
        return None
    connection.close_if_health_check_failed()
    connection.ensure_connection()
    connection.validate_thread_sharing()
    raw = connection.connection
    return raw if type(raw).__module__ in ("sqlite3", "psycopg") else None


_OWN_WRAPPERS: list[list[Any]] = [[], [sqlite_deletions.watch_deletion]]
_DJANGO = os.path.join(os.path.dirname(django.__file__), "")


@functools.lru_cache(maxsize=20)
def _are_djangos(*functions: Any) -> bool:
    """Return whether Django defines these functions; tools replace them by their own."""
    return all(
        isinstance(function, FunctionType) and function.__code__.co_filename.startswith(_DJANGO)
        for function in functions
    )


@contextmanager
def quick_cursor(connection: BaseDatabaseWrapper) -> Iterator[Any]:
    """Open a cursor for statements that are used repeatedly: the driver's, if nothing watches."""
    if driver_connection(connection) is None:
        with connection.cursor() as watched:
            yield watched
    else:
        with (
            connection.wrap_database_errors,
            closing(connection.create_cursor()) as cursor,
        ):
            yield cursor


def fetch_rows(
    connection: BaseDatabaseWrapper, sql: str, parameters: Sequence[Any]
) -> list[tuple[Any, ...]]:
    """Run a statement that is used repeatedly, and return its rows."""
    with quick_cursor(connection) as cursor:
        cursor.execute(sql, parameters)
        return list(cursor.fetchall())


@contextmanager
def sqlite_transaction(connection: BaseDatabaseWrapper) -> Iterator[Any]:
    """Open a cursor in a transaction of SQLite, or in the present one without a savepoint."""
    alone = connection.autocommit and not connection.in_atomic_block
    raw = driver_connection(connection) if alone else None
    if raw is None:
        begin = transaction.atomic(connection.alias) if alone else nullcontext()
        with begin, quick_cursor(connection) as cursor:
            yield cursor
        return
    with connection.wrap_database_errors, closing(connection.create_cursor()) as cursor:
        cursor.execute("BEGIN IMMEDIATE")
        try:
            yield cursor
            cursor.execute("COMMIT")
        except BaseException:
            # Some errors have ended the transaction.
            if raw.in_transaction:
                cursor.execute("ROLLBACK")
            raise
