"""What the statements that are written by hand share: quoted names, and cursors."""

from __future__ import annotations

import functools
from typing import Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper

from .models import SessionMessage

_SHAPES = 500
"""How many statements are kept as SQLite reads them: those of a batch differ by its size."""

_messages = SessionMessage._meta


def column(field: models.Field[Any, Any]) -> str:
    """Names the column of a field, not quoted."""
    return str(field.column)


def quoted(connection: BaseDatabaseWrapper, sql: str) -> str:
    """Fills in the names of the messages' table, ``{messages}``, and of its columns."""
    quote = connection.ops.quote_name
    columns = {name: quote(name) for name in map(column, _messages.concrete_fields)}
    return sql.format(messages=quote(_messages.db_table), **columns)


def cursor(connection: BaseDatabaseWrapper) -> CursorWrapper:
    """Makes a cursor for statements that are used again and again.

    Django writes a statement anew for SQLite at each use: for a batch, that takes a fifth of the
    time that SQLite does. Where somebody else made the cursor, it stays so.
    """
    wrapped = connection.cursor()
    raw: Any = getattr(wrapped, "cursor", None)
    if hasattr(raw, "convert_query"):
        raw.convert_query = _for_sqlite
    return wrapped


@functools.lru_cache(maxsize=_SHAPES)
def _for_sqlite(sql: str, *, param_names: None = None) -> str:
    return sql.replace("%s", "?")
