"""Quoted names and cursors for raw SQL."""

from __future__ import annotations

import functools
from typing import Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper

from django_agent_sessions.models import SessionMessage
from django_agent_sessions.models.stored_text import first_text

_CACHE_SIZE = 500
"""Maximum number of cached statements; those of batches differ by the number of rows."""

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
    columns = {"redact_message": "{redact_message}", "message": "{message}"}
    get: Any = _messages.get_field
    return first_text(connection, "{id}", {get(name): sql for name, sql in columns.items()})


def caching_cursor(connection: BaseDatabaseWrapper) -> CursorWrapper:
    """Return a cursor for statements that are used repeatedly.

    For SQLite, Django converts the placeholders of a statement at each use, which takes a fifth of
    the time of running a batch; this caches the result. Cursors that do not convert, such as
    wrapped ones, stay unchanged.
    """
    wrapped = connection.cursor()
    raw: Any = getattr(wrapped, "cursor", None)
    if hasattr(raw, "convert_query"):
        raw.convert_query = _with_qmarks
    return wrapped


@functools.lru_cache(maxsize=_CACHE_SIZE)
def _with_qmarks(sql: str, *, param_names: None = None) -> str:
    return sql.replace("%s", "?")
