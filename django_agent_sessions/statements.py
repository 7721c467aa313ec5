"""The statements that the ORM cannot say in one round trip: append and pop.

Both decide a message's position by what is in the database at that moment, in a single statement,
so that they are atomic on their own and need no transaction around them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db import connections, models
from django.db.backends.base.base import BaseDatabaseWrapper

from . import prepared
from .models import Session, SessionAgent, SessionMessage

MOST_ROWS = 200
"""How many messages one statement appends; SQLite takes 500 parts of a UNION at the most."""

_messages = SessionMessage._meta
# The statement finds the first four itself; a new message has none of the others yet.
_NOT_GIVEN = (
    "session",
    "agent",
    "branch",
    "message_id",
    "revision",
    "redact_message",
    "redacted_at",
)
ROW_FIELDS: tuple[models.Field[Any, Any], ...] = tuple(
    field for field in _messages.concrete_fields if field.name not in _NOT_GIVEN
)
"""The fields of a row for :func:`append`, in the order of its values."""


def append(
    using: str,
    agent: UUID,
    rows: Sequence[Sequence[Any]],
    *,
    branch: int = 0,
    expected: int | None = None,
    epoch: int | None = None,
) -> int | None:
    """Writes messages behind the last one of a conversation: all of them or none.

    Args:
        using: The alias of the database.
        agent: Primary key of the agent.
        rows: At most :data:`MOST_ROWS` rows of database values in the order of
            :data:`ROW_FIELDS`.
        branch: The branch of the conversation.
        expected: Write only if this is the next position.
        epoch: Write only if the session's redaction epoch is still this one.

    Returns:
        The position of the first message; None if nothing was written, because the agent is gone,
        a condition did not hold, or another writer took the position at this very moment.

    Raises:
        IntegrityError: Another writer took a position at this very moment (where the database
            cannot answer that with None).
    """
    connection = connections[using]
    returning = connection.features.can_return_rows_from_bulk_insert
    shape = (_vendor(connection), len(rows), branch, expected is not None, epoch is not None)
    sql = _append_statements.get(shape)
    if sql is None:
        sql = _append_statements[shape] = _append_sql(connection, *shape)
    parameters: list[Any] = []
    for position, row in enumerate(rows):
        parameters += [position, *row]
    agent_value = _messages.get_field("agent").get_db_prep_save(agent, connection)
    parameters += [agent_value, branch, agent_value]
    parameters += [value for value in (epoch, expected) if value is not None]
    if len(rows) == 1 and (found := prepared.fetch(connection, sql, parameters)) is not None:
        return found[0][0] if found else None
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        if returning:
            return min((position for (position,) in cursor.fetchall()), default=None)
        if not cursor.rowcount:
            return None
        # MySQL alone cannot answer with the row it wrote.
        cursor.execute(
            _quoted(
                connection,
                "SELECT {message_id} FROM {messages} WHERE {id} = %s",
            ),
            [rows[0][0]],
        )
        return int(cursor.fetchone()[0])


def pop(using: str, agent: UUID, *, branch: int = 0) -> tuple[bool, Any]:
    """Takes the last message of a conversation away.

    Args:
        using: The alias of the database.
        agent: Primary key of the agent.
        branch: The branch of the conversation.

    Returns:
        Whether a message was taken, and its payload's text. Nothing may be taken although there
        is a message, if another caller took it at this very moment.
    """
    connection = connections[using]
    agent_value = _messages.get_field("agent").get_db_prep_save(agent, connection)
    with connection.cursor() as cursor:
        cursor.execute(_pop_sql(connection), [agent_value, branch])
        found = cursor.fetchone()
    return (False, None) if found is None else (True, found[0])


def contents(
    using: str, agent: UUID, *, branch: int = 0, latest: int | None = None
) -> list[tuple[int, str]]:
    """Reads what was said, redacted where it was redacted.

    The ORM can say this too, but takes longer to say it than the database to answer.

    Args:
        using: The alias of the database.
        agent: Primary key of the agent.
        branch: The branch of the conversation.
        latest: Only that many of the last ones, backwards; None reads all, in order.

    Returns:
        Position and payload's text of each message.
    """
    connection = connections[using]
    sql = (
        "SELECT {message_id}, COALESCE({redact_message}, {message}) FROM {messages} "
        "WHERE {agent_id} = %s AND {branch} = %s ORDER BY {message_id}"
    )
    parameters = [_messages.get_field("agent").get_db_prep_save(agent, connection), branch]
    if latest is not None:
        sql += " DESC LIMIT %s"
        parameters.append(latest)
    sql = _quoted(connection, sql)
    found = prepared.fetch(connection, sql, parameters)
    if found is None:
        with connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            found = cursor.fetchall()
    return found


# Making the text costs as much as running it, and there are few shapes of it.
_append_statements: dict[tuple[str, int, int, bool, bool], str] = {}


def _append_sql(
    connection: BaseDatabaseWrapper,
    vendor: str,
    rows: int,
    branch: int,
    expected: bool,
    epoch: bool,
) -> str:
    quote = connection.ops.quote_name
    names = [f"c{index}" for index in range(len(ROW_FIELDS))]
    given = _given(vendor, rows, names, [field.cast_db_type(connection) for field in ROW_FIELDS])
    columns = [quote(_column(field)) for field in ROW_FIELDS]
    columns += map(quote, ("session_id", "agent_id", "branch", "message_id", "revision"))
    conditions = "".join(
        [
            f" AND (SELECT s.{quote('redaction_epoch')} FROM {quote(Session._meta.db_table)} s "
            f"WHERE s.{quote('id')} = a.{quote('session_id')}) = %s"
            if epoch
            else "",
            " AND n.next = %s" if expected else "",
        ]
    )
    # One row that meets another is simply not written; of several, a part might be.
    conflict = " ON CONFLICT DO NOTHING" if vendor == "postgresql" and rows == 1 else ""
    returning = (
        f" RETURNING {quote('message_id')}"
        if connection.features.can_return_rows_from_bulk_insert
        else ""
    )
    return (
        f"INSERT INTO {quote(_messages.db_table)} ({', '.join(columns)}) "
        f"SELECT {', '.join(f'r.{name}' for name in names)}, "
        f"a.{quote('session_id')}, a.{quote('id')}, {branch:d}, n.next + r.p, 0 "
        f"FROM ({given}) r "
        f"CROSS JOIN (SELECT COALESCE((SELECT m.{quote('message_id')} + 1 "
        f"FROM {quote(_messages.db_table)} m WHERE m.{quote('agent_id')} = %s "
        f"AND m.{quote('branch')} = %s ORDER BY m.{quote('message_id')} DESC LIMIT 1), 0) "
        f"AS next) n "
        f"CROSS JOIN {quote(SessionAgent._meta.db_table)} a "
        f"WHERE a.{quote('id')} = %s{conditions}{conflict}{returning}"
    )


def _given(vendor: str, rows: int, names: list[str], types: list[str | None]) -> str:
    """Writes a table of parameters: the place of each row in the batch, and its values."""
    names = ["p", *names]
    if vendor != "postgresql":
        first = ", ".join(f"%s AS {name}" for name in names)
        other = ", ".join(["%s"] * len(names))
        return " UNION ALL ".join([f"SELECT {first}", *[f"SELECT {other}"] * (rows - 1)])
    # Without a type, PostgreSQL takes a bare NULL or text for text.
    first = ", ".join(f"%s::{type_}" for type_ in ["integer", *types])
    # Of a union, PostgreSQL would plan each part.
    other = ", ".join(["%s"] * len(names))
    values = ", ".join([f"({first})", *[f"({other})"] * (rows - 1)])
    return f"SELECT * FROM (VALUES {values}) v ({', '.join(names)})"


def _pop_sql(connection: BaseDatabaseWrapper) -> str:
    vendor = _vendor(connection)
    where = "{agent_id} = %s AND {branch} = %s"
    payload = "COALESCE({redact_message}, {message})"
    if vendor == "mariadb":
        # MariaDB cannot select from the table it deletes from, and needs not.
        sql = (
            f"DELETE FROM {{messages}} WHERE {where} "
            f"ORDER BY {{message_id}} DESC LIMIT 1 RETURNING {payload}"
        )
    else:
        lock = " FOR UPDATE" if vendor == "postgresql" else ""
        sql = (
            f"DELETE FROM {{messages}} WHERE {{id}} = (SELECT {{id}} FROM {{messages}} "
            f"WHERE {where} ORDER BY {{message_id}} DESC LIMIT 1{lock}) RETURNING {payload}"
        )
    return _quoted(connection, sql)


def _quoted(connection: BaseDatabaseWrapper, sql: str) -> str:
    quote = connection.ops.quote_name
    columns = {name: quote(name) for name in map(_column, _messages.concrete_fields)}
    return sql.format(messages=quote(_messages.db_table), **columns)


def _column(field: models.Field[Any, Any]) -> str:
    return str(field.column)


def _vendor(connection: BaseDatabaseWrapper) -> str:
    if connection.vendor == "mysql" and connection.mysql_is_mariadb:  # type: ignore[attr-defined]
        return "mariadb"
    return connection.vendor
