"""The statements that write: append and pop, which the ORM cannot say in one round trip.

Both decide a message's position by what is in the database at that moment, in a single statement,
so that they are atomic on their own and need no transaction around them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connections, models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.expressions import RawSQL

from . import handwritten, prepared
from .models import Session, SessionAgent, SessionMessage
from .records import Usage
from .vendors import vendor_of

MOST_ROWS = 200
"""How many messages one statement appends; SQLite takes 500 parts of a UNION at the most."""

_messages = SessionMessage._meta
_sessions = Session._meta
_fields = {field.name: field for field in _messages.concrete_fields}
# The statement finds session, agent, branch and position itself; a new message has none of the
# other fields yet.
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
        "created_at",
        "updated_at",
    )
)
"""The fields of a row for :func:`append`, in the order of its values."""


PLACED_FIELDS: tuple[models.Field[Any, Any], ...] = (
    *ROW_FIELDS,
    *(field for field in _fields.values() if field not in ROW_FIELDS),
)
"""The fields of a row for :func:`insert`, in the order of its values: all that there are."""


def append(
    using: str,
    agent: UUID,
    rows: Sequence[Sequence[Any]],
    *,
    branch: int = 0,
    expected: int | None = None,
    epoch: int | None = None,
    counting: Counting | None = None,
) -> int | None:
    """Writes messages behind the last one of a conversation: all of them or none."""
    connection = connections[using]
    returning = connection.features.can_return_rows_from_bulk_insert
    vendor = vendor_of(connection)
    in_arrays = vendor == "postgresql" and len(rows) > 1
    many = _MANY if in_arrays else len(rows)
    shape = (vendor, many, expected is not None, epoch is not None, counting is not None)
    sql = _append_statements.get(shape)
    if sql is None:
        sql = _append_statements[shape] = _append_sql(connection, *shape)
    parameters: list[Any] = [branch]
    if in_arrays:
        parameters += map(_array, zip(*rows, strict=True))
    else:
        for position, row in enumerate(rows):
            parameters.append(position)
            parameters += row
    agent_value = _agent.get_db_prep_save(agent, connection)
    parameters += (agent_value, branch, agent_value)
    if epoch is not None:
        parameters.append(epoch)
    if expected is not None:
        parameters.append(expected)
    if counting is not None:
        parameters += _counted_values(connection, counting)
    if (
        vendor == "postgresql"
        and (found := prepared.fetch(connection, sql, parameters)) is not None
    ):
        return min((position for (position,) in found), default=None)
    with handwritten.cursor(connection) as cursor:
        cursor.execute(sql, parameters)
        if returning:
            return min((position for (position,) in cursor.fetchall()), default=None)
        if not cursor.rowcount:
            return None
        # MySQL alone cannot answer with the row it wrote.
        cursor.execute(
            handwritten.quoted(
                connection,
                "SELECT {message_id} FROM {messages} WHERE {id} = %s",
            ),
            [rows[0][0]],
        )
        return int(cursor.fetchone()[0])


class Counting(NamedTuple):
    """How the counters of a session move."""

    session: UUID
    spent: Usage
    at: datetime


def counts_along(using: str) -> bool:
    """Tells whether :func:`append` can move the counters in the statement that writes."""
    return connections[using].vendor == "postgresql"


def count(using: str, counting: Counting) -> None:
    """Moves the counters of a session, and its last activity.

    The ORM can say this too, but takes several times as long to say it.
    """
    connection = connections[using]
    with handwritten.cursor(connection) as cursor:
        cursor.execute(_count_sql(connection), _counted_values(connection, counting))


def insert(using: str, rows: Sequence[Sequence[Any]]) -> None:
    """Writes messages at positions that are known: all of them or none.

    The ORM can say this too, but takes several times as long to say it, and says it in parts.
    """
    connection = connections[using]
    quote = connection.ops.quote_name
    columns = ", ".join(quote(handwritten.column(field)) for field in PLACED_FIELDS)
    row = f"({', '.join(['%s'] * len(PLACED_FIELDS))})"
    sql = f"INSERT INTO {quote(_messages.db_table)} ({columns}) VALUES "
    with connection.cursor() as cursor:
        cursor.execute(
            sql + ", ".join([row] * len(rows)), [value for values in rows for value in values]
        )


def pop(using: str, agent: UUID, *, branch: int = 0) -> tuple[UUID, int, str, bool] | None:
    """Takes the last message of a conversation away."""
    connection = connections[using]
    agent_value = _messages.get_field("agent").get_db_prep_save(agent, connection)
    with connection.cursor() as cursor:
        cursor.execute(_pop_sql(connection), [agent_value, branch])
        found = cursor.fetchone()
    if found is None:
        return None
    key, position, text, redacted = found
    return _messages.pk.to_python(key), position, text, bool(redacted)


_SHARED = {
    "postgresql": " FOR KEY SHARE",
    "mariadb": " LOCK IN SHARE MODE",
    "mysql": " LOCK IN SHARE MODE",
}
"""The lock under which a writer looks at its session's redaction epoch.

Without it a statement that waits for a redaction would go on with the epoch of before. It is the
lock that a foreign key takes, and meets no other writer, only a redaction.
"""


_APPENDING = {**_SHARED, "postgresql": " FOR NO KEY UPDATE"}
"""The lock under which an append looks at its session's row.

It meets whoever takes messages away, which :func:`append` must not overlook. PostgreSQL has no
lock that meets them and not the other appends to the session: these wait for each other.
"""

_SAME = {"postgresql": "IS NOT DISTINCT FROM", "mariadb": "<=>", "mysql": "<=>"}


def at_epoch(using: str, session: UUID, epoch: int) -> RawSQL:
    """Makes the condition that nothing was redacted since: for ``filter(session__in=…)``."""
    connection = connections[using]
    quote = connection.ops.quote_name
    return RawSQL(  # noqa: S611 - names of our own columns
        f"SELECT {quote('id')} FROM {quote(Session._meta.db_table)} WHERE {quote('id')} = %s "
        f"AND {quote('redaction_epoch')} = %s{_SHARED.get(vendor_of(connection), '')}",
        [Session._meta.pk.get_db_prep_save(session, connection), epoch],
    )


# Making the text costs as much as running it, and there are few shapes of it.
_append_statements: dict[tuple[str, int, bool, bool, bool], str] = {}
_MANY = -1
"""However many rows: the statement is the same."""
_agent = _messages.get_field("agent")


def _append_sql(
    connection: BaseDatabaseWrapper,
    vendor: str,
    rows: int,
    expected: bool,
    epoch: bool,
    counting: bool,
) -> str:
    quote = connection.ops.quote_name
    names = [f"c{index}" for index in range(len(ROW_FIELDS))]
    number = "%s::integer" if vendor == "postgresql" else "%s"
    given = _given(vendor, rows, names, [field.cast_db_type(connection) for field in ROW_FIELDS])
    session = (
        f"FROM {quote(Session._meta.db_table)} s WHERE s.{quote('id')} = a.{quote('session_id')}"
    )
    lock = _APPENDING.get(vendor)
    unchanged = ""
    if lock is not None:
        # The next position is as of the statement's beginning. Where the locked row has another
        # mark than it had then, somebody took messages away while this waited.
        mark, same = f"SELECT s.{quote('last_write')} {session}", _SAME[vendor]
        unchanged = f" AND ({mark}{lock}) {same} ({mark})"
    columns = [quote(handwritten.column(field)) for field in ROW_FIELDS]
    columns += map(quote, ("session_id", "agent_id", "branch", "message_id", "revision"))
    conditions = "".join(
        [
            unchanged,
            f" AND (SELECT s.{quote('redaction_epoch')} {session}{lock or ''}) = %s"
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
    written = (
        f"INSERT INTO {quote(_messages.db_table)} ({', '.join(columns)}) "
        f"SELECT {', '.join(f'r.{name}' for name in names)}, "
        f"a.{quote('session_id')}, a.{quote('id')}, {number}, n.next + r.p, 0 "
        f"FROM ({given}) r "
        f"CROSS JOIN (SELECT COALESCE((SELECT m.{quote('message_id')} + 1 "
        f"FROM {quote(_messages.db_table)} m WHERE m.{quote('agent_id')} = %s "
        f"AND m.{quote('branch')} = %s ORDER BY m.{quote('message_id')} DESC LIMIT 1), 0) "
        f"AS next) n "
        f"CROSS JOIN {quote(SessionAgent._meta.db_table)} a "
        f"WHERE a.{quote('id')} = %s{conditions}{conflict}{returning}"
    )
    if not counting:
        return written
    # Where nothing was written, nothing is counted; and an error takes both back.
    return (
        f"WITH written AS ({written}), counted AS ({_count_sql(connection)} "
        f"AND EXISTS (SELECT 1 FROM written)) SELECT {quote('message_id')} FROM written"
    )


def _count_sql(connection: BaseDatabaseWrapper) -> str:
    quote = connection.ops.quote_name
    moved = "".join(
        f"{quote(name)} = {quote(name)} + %s, "
        for name in ("message_count", "input_tokens", "output_tokens")
    )
    return (
        f"UPDATE {quote(_sessions.db_table)} SET {moved}{quote('last_activity_at')} = %s, "
        f"{quote('updated_at')} = %s WHERE {quote('id')} = %s"
    )


def _counted_values(connection: BaseDatabaseWrapper, counting: Counting) -> list[Any]:
    at = _sessions.get_field("updated_at").get_db_prep_save(counting.at, connection)
    session = _sessions.pk.get_db_prep_save(counting.session, connection)
    spent = counting.spent
    return [spent.messages, spent.input_tokens, spent.output_tokens, at, at, session]


def _given(vendor: str, rows: int, names: list[str], types: list[str | None]) -> str:
    """Writes a table of parameters: the place of each row in the batch, and its values."""
    if rows == _MANY:
        # One statement for any number of rows, and few parameters: what is sent and planned is
        # little, and can be prepared.
        arrays = ", ".join(f"%s::{type_}[]" for type_ in types)
        return (
            f"SELECT {', '.join(f'v.{name}' for name in names)}, v.n - 1 AS p "
            f"FROM unnest({arrays}) WITH ORDINALITY v ({', '.join(names)}, n)"
        )
    names = ["p", *names]
    if vendor != "postgresql":
        first = ", ".join(f"%s AS {name}" for name in names)
        other = ", ".join(["%s"] * len(names))
        return " UNION ALL ".join([f"SELECT {first}", *[f"SELECT {other}"] * (rows - 1)])
    # Without a type, PostgreSQL takes a bare NULL or text for text.
    values = zip(["integer", *types], names, strict=True)
    return f"SELECT {', '.join(f'%s::{type_} AS {name}' for type_, name in values)}"


_TO_ESCAPE = re.compile(r'[\\"]')


def _array(values: Iterable[Any]) -> str:
    """Writes an array as PostgreSQL reads it, several times as fast as the driver does.

    https://www.postgresql.org/docs/current/arrays.html#ARRAYS-IO
    """
    elements = ["NULL" if value is None else _element(str(value)) for value in values]
    return f"{{{','.join(elements)}}}"


def _element(text: str) -> str:
    if '"' in text:
        text = _TO_ESCAPE.sub(r"\\\g<0>", text) if "\\" in text else text.replace('"', '\\"')
    elif "\\" in text:
        text = text.replace("\\", "\\\\")
    return f'"{text}"'


def _pop_sql(connection: BaseDatabaseWrapper) -> str:
    where = "{agent_id} = %s AND {branch} = %s"
    text = "COALESCE({redact_message}, {message})"
    taken = f"{{id}}, {{message_id}}, {text}, {{redact_message}} IS NOT NULL"
    if vendor_of(connection) == "mariadb":
        # MariaDB cannot select from the table it deletes from, and needs not.
        sql = (
            f"DELETE FROM {{messages}} WHERE {where} "
            f"ORDER BY {{message_id}} DESC LIMIT 1 RETURNING {taken}"
        )
    else:
        sql = (
            f"DELETE FROM {{messages}} WHERE {{id}} = (SELECT {{id}} FROM {{messages}} "
            f"WHERE {where} ORDER BY {{message_id}} DESC LIMIT 1) RETURNING {taken}"
        )
    return handwritten.quoted(connection, sql)
