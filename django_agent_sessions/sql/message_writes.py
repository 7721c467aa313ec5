"""Pop, which the ORM cannot do in one round trip, and faster inserts and redactions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connections, models
from django.db.backends.base.base import BaseDatabaseWrapper

from django_agent_sessions.db.vendors import database_vendor
from django_agent_sessions.models import MessageFeedback, SessionMessage
from django_agent_sessions.models.stored_text import opened_text
from django_agent_sessions.sql import cursors

MAX_ROWS = 200
"""Maximum number of messages per statement."""

_messages = SessionMessage._meta
_fields = {field.name: field for field in _messages.concrete_fields}
# The statement itself sets session, agent, branch and position; the other fields of a new message
# have no value yet.
ROW_FIELDS: tuple[models.Field[Any, Any], ...] = tuple(
    _fields[name]
    for name in (
        "id",
        "run_id",
        "message",
        "role",
        "text",
        "input_tokens",
        "output_tokens",
        "latency_ms",
        "has_error",
        "model",
        "created_at",
        "updated_at",
    )
)
"""The fields in the order of the values of a row for :func:`.appends.append`."""

EMPTY_FIELDS: Mapping[str, Any] = {
    "external_id": None,
    "author": "",
    "cache_read_tokens": None,
    "cache_write_tokens": None,
}
"""The fields that most messages leave empty, and what they are then. They follow those of
:data:`ROW_FIELDS` if a row of the statement has one, so that other appends do not pay for them."""

WIDE_FIELDS: tuple[models.Field[Any, Any], ...] = (
    *ROW_FIELDS,
    *(_fields[name] for name in EMPTY_FIELDS),
)

ALL_FIELDS: tuple[models.Field[Any, Any], ...] = (
    *WIDE_FIELDS,
    *(field for field in _fields.values() if field not in WIDE_FIELDS),
)
"""All fields, in the order of the values of a row for :func:`insert`."""


def insert(using: str, rows: Sequence[Sequence[Any]]) -> None:
    """Insert messages with known positions: all of them or none.

    Several times faster than the ORM, and in one statement.
    """
    connection = connections[using]
    quote = connection.ops.quote_name
    columns = ", ".join(quote(cursors.column_name(field)) for field in ALL_FIELDS)
    row = f"({', '.join(['%s'] * len(ALL_FIELDS))})"
    sql = f"INSERT INTO {quote(_messages.db_table)} ({columns}) VALUES "
    with connection.cursor() as cursor:
        cursor.execute(
            sql + ", ".join([row] * len(rows)), [value for values in rows for value in values]
        )


class PoppedRow(NamedTuple):
    """A message that was deleted."""

    key: UUID
    original: UUID
    position: int
    text: str
    redacted: bool
    has_error: bool
    has_feedback: bool


def pop(using: str, agent: UUID, *, branch: int = 0) -> PoppedRow | None:
    """Delete the last message and return it."""
    connection = connections[using]
    agent_value = _messages.get_field("agent").get_db_prep_save(agent, connection)
    with connection.cursor() as cursor:
        cursor.execute(_pop_sql(connection), [agent_value, branch])
        values = cursor.fetchone()
    if values is None:
        return None
    key, source, position, text, *flags = values
    key = _messages.pk.to_python(key)
    original = key if source is None else _messages.pk.to_python(source)
    return PoppedRow(key, original, position, opened_text(text), *map(bool, flags))


def _pop_sql(connection: BaseDatabaseWrapper) -> str:
    where = "{agent_id} = %s AND {branch} = %s"
    text = cursors.payload_text(connection)
    quote = connection.ops.quote_name
    rated = (
        f"EXISTS (SELECT 1 FROM {quote(MessageFeedback._meta.db_table)} f "
        f"WHERE f.{quote('message_id')} = {{messages}}.{{id}})"
    )
    flags = f"{{redacted_at}} IS NOT NULL, {{has_error}}, {rated}"
    columns = f"{{id}}, {{source}}, {{message_id}}, {text}, {flags}"
    if database_vendor(connection) == "mariadb":
        # MariaDB cannot select from the table that it deletes from.
        sql = (
            f"DELETE FROM {{messages}} WHERE {where} "
            f"ORDER BY {{message_id}} DESC LIMIT 1 RETURNING {columns}"
        )
    else:
        sql = (
            f"DELETE FROM {{messages}} WHERE {{id}} = (SELECT {{id}} FROM {{messages}} "
            f"WHERE {where} ORDER BY {{message_id}} DESC LIMIT 1) RETURNING {columns}"
        )
    return cursors.quote_names(connection, sql)


def redact_rows(
    using: str,
    rows: Sequence[tuple[UUID, int, Mapping[str, Any]]],
    event: UUID,
    *,
    change: int,
) -> int:
    """Write redacted versions of messages, and return how many had the expected revision.

    A row has the key, the revision, and the values of the columns that change with the payload.
    Several times faster than the ORM, while the session is locked.
    """
    if not rows:
        return 0
    connection = connections[using]
    sql = cursors.quote_names(
        connection,
        "UPDATE {messages} SET {message} = %s, {redacted_at} = %s, "
        "{redaction} = %s, {redaction_change} = %s, {revision} = {revision} + 1, "
        "{role} = %s, {text} = %s, {updated_at} = %s WHERE {id} = %s AND {revision} = %s",
    )

    def adapt(name: str, value: Any) -> Any:
        return _fields[name].get_db_prep_save(value, connection)

    parameters = [
        [
            columns["message"],
            adapt("redacted_at", columns["redacted_at"]),
            adapt("redaction", event),
            change,
            columns["role"],
            columns["text"],
            adapt("updated_at", columns["updated_at"]),
            adapt("id", key),
            revision,
        ]
        for key, revision, columns in rows
    ]
    with connection.cursor() as cursor:
        cursor.executemany(sql, parameters)
        return int(cursor.rowcount)
