"""Quoted names and rows for raw SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper

from django_agent_sessions.models import SessionMessage
from django_agent_sessions.models.content_field import with_row

_messages = SessionMessage._meta


def column_name(field: models.Field[Any, Any]) -> str:
    """Return the unquoted column name of a field."""
    return str(field.column)


def quote_names(connection: BaseDatabaseWrapper, sql: str) -> str:
    """Replace ``{messages}`` and ``{<column>}`` with quoted names of the table of messages."""
    quote = connection.ops.quote_name
    columns = {name: quote(name) for name in map(column_name, _messages.concrete_fields)}
    return sql.format(messages=quote(_messages.db_table), **columns)


def payload_text(connection: BaseDatabaseWrapper) -> str:
    """Return the SQL of a message's payload, as it is selected, for :func:`quote_names`."""
    field: Any = _messages.get_field("message")
    return with_row(connection, field, "{id}", "{message}")


def fetch_rows(
    connection: BaseDatabaseWrapper, sql: str, parameters: Sequence[Any]
) -> list[tuple[Any, ...]]:
    """Run a statement, and return its rows."""
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return list(cursor.fetchall())
