"""Append and pop, which the ORM cannot do in one round trip, and faster inserts and counters.

Append and pop decide a message's position from the database's present content, in a single
statement, so that they are atomic and need no transaction.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connections, models, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.expressions import RawSQL

from django_agent_sessions.db.vendors import database_vendor
from django_agent_sessions.models import MessageFeedback, Session, SessionAgent, SessionMessage
from django_agent_sessions.models.stored_text import opened_text
from django_agent_sessions.sql import cursors
from django_agent_sessions.values.records import Usage

MAX_ROWS = 200
"""Maximum number of messages per statement."""

_messages = SessionMessage._meta
_sessions = Session._meta
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
"""The fields in the order of the values of a row for :func:`append`."""

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


def row_fields(rows: Sequence[Sequence[Any]]) -> tuple[models.Field[Any, Any], ...]:
    """Return the fields of rows, which all have the same."""
    return ROW_FIELDS if len(rows[0]) == len(ROW_FIELDS) else WIDE_FIELDS


def append(
    using: str,
    agent: UUID,
    rows: Sequence[Sequence[Any]],
    *,
    branch: int = 0,
    expected: int | None = None,
    epoch: int | None = None,
    counting: CounterUpdate | None = None,
) -> int | None:
    """Append messages: all of them or none.

    ``rows`` has database values in the order of :func:`row_fields`. Returns the first position;
    None if the agent was deleted, a condition does not hold, or another writer got the position.
    """
    connection = connections[using]
    vendor = database_vendor(connection)
    on_sqlite = vendor == "sqlite"
    in_arrays = vendor == "postgresql" and len(rows) > 1
    together = rows[:1] if on_sqlite else rows
    many = ANY_NUMBER if in_arrays else len(together)
    counts = counting is not None and vendor == "postgresql"
    shape = _AppendShape(
        vendor,
        many,
        expected is not None,
        epoch is not None,
        len(rows[0]) > len(ROW_FIELDS),
        counts,
        counts and counting is not None and counting.has_cached,
    )
    sql = _append_statements.get(shape)
    if sql is None:
        sql = _append_statements[shape] = _append_sql(connection, shape)
    parameters: list[Any] = [branch]
    if in_arrays:
        parameters += map(array_literal, zip(*rows, strict=True))
    else:
        for position, row in enumerate(together):
            parameters.append(position)
            parameters += row
    parameters += (agent.hex, branch, agent.hex)
    if epoch is not None:
        parameters.append(epoch)
    if expected is not None:
        parameters.append(expected)
    if counting is not None and counts:
        parameters += _counted_values(connection, counting, shape.cached)
    if on_sqlite:
        alone = len(rows) == 1 and counting is None
        begins = not alone and connection.get_autocommit()
        with transaction.atomic(using) if begins else nullcontext(), connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            first = cursor.fetchone()
            if first is not None and not alone:
                _write_more(connection, cursor, rows[1:], first, counting)
        return None if first is None else int(first[0])
    if connection.features.can_return_rows_from_bulk_insert:
        positions = cursors.fetch_rows(connection, sql, parameters)
        return min(positions)[0] if positions else None
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        if not cursor.rowcount:
            return None
        # MySQL has no RETURNING.
        written = "SELECT {message_id} FROM {messages} WHERE {id} = %s"
        cursor.execute(cursors.quote_names(connection, written), [rows[0][0]])
        return int(cursor.fetchone()[0])


def _write_more(
    connection: BaseDatabaseWrapper,
    cursor: Any,
    rows: Sequence[Sequence[Any]],
    first: Sequence[Any],
    counting: CounterUpdate | None,
) -> None:
    """Insert the messages after the first, whose row is given, and count them all.

    SQLite lets nobody write in between, and compiles a statement for one row faster.
    """
    if rows:
        position, *same = first
        cursor.executemany(
            _more_sql(connection, row_fields(rows)),
            [(*row, *same, number) for number, row in enumerate(rows, position + 1)],
        )
    if counting is not None:
        _execute_count(connection, cursor, counting)


class CounterUpdate(NamedTuple):
    """A change of a session's counters."""

    session: UUID
    spent: Usage
    at: datetime

    @property
    def has_cached(self) -> bool:
        """Whether tokens of a provider's cache are counted, which most calls do not report."""
        return self.spent.has_cached


def update_counters(using: str, counting: CounterUpdate) -> None:
    """Update a session's counters and last activity. Several times faster than the ORM."""
    connection = connections[using]
    with connection.cursor() as cursor:
        _execute_count(connection, cursor, counting)


def _execute_count(connection: BaseDatabaseWrapper, cursor: Any, counting: CounterUpdate) -> None:
    cached = counting.has_cached
    cursor.execute(_count_sql(connection, cached), _counted_values(connection, counting, cached))


def update_all_counters(using: str, updates: Sequence[CounterUpdate]) -> None:
    """Update the counters of several sessions; the same as :func:`update_counters` for each."""
    connection = connections[using]
    cached = any(update.has_cached for update in updates)
    with connection.cursor() as cursor:
        cursor.executemany(
            _count_sql(connection, cached),
            [_counted_values(connection, update, cached) for update in updates],
        )


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


_SHARED = {
    "postgresql": " FOR KEY SHARE",
    "mariadb": " LOCK IN SHARE MODE",
    "mysql": " LOCK IN SHARE MODE",
}
"""The lock under which a writer reads its session's redaction epoch.

Without it a statement that waits for a redaction would continue with the old epoch. It is the lock
that a foreign key takes: it blocks no other writer, only a redaction.
"""

_APPENDING = {**_SHARED, "postgresql": " FOR NO KEY UPDATE"}
"""The lock under which an append reads its session's row.

It conflicts with writers that delete messages, which :func:`append` has to detect. PostgreSQL has
no lock that conflicts with them but not with other appends: appends to a session are serialized.
"""


def free_at_epoch(using: str, session: UUID, epoch: int | None) -> RawSQL:
    """Return a subquery, for ``filter(session__in=…)``.

    It requires that the session is under no legal hold, and a redaction epoch if that is not None.
    """
    connection = connections[using]
    quote = connection.ops.quote_name
    same_epoch = "" if epoch is None else f" AND {quote('redaction_epoch')} = %s"
    return RawSQL(  # noqa: S611 - names of our own columns
        f"SELECT {quote('id')} FROM {quote(Session._meta.db_table)} WHERE {quote('id')} = %s "
        f"AND NOT {quote('legal_hold')}{same_epoch}{_SHARED.get(database_vendor(connection), '')}",
        [
            Session._meta.pk.get_db_prep_save(session, connection),
            *([] if epoch is None else [epoch]),
        ],
    )


class _AppendShape(NamedTuple):
    """What the SQL of an append depends on."""

    vendor: str
    rows: int
    expected: bool
    epoch: bool
    wide: bool
    counting: bool
    cached: bool


# Building the SQL takes as long as running it, and there are few variants.
_append_statements: dict[_AppendShape, str] = {}
_SAME = ("session_id", "agent_id", "branch", "revision", "change")
"""The columns of which all messages of an append have the same value."""
ANY_NUMBER = -1
"""Any number of rows: the statement is the same."""


def _append_sql(connection: BaseDatabaseWrapper, shape: _AppendShape) -> str:
    quote, vendor, rows = connection.ops.quote_name, shape.vendor, shape.rows
    fields = WIDE_FIELDS if shape.wide else ROW_FIELDS
    names = [f"c{index}" for index in range(len(fields))]
    number = "%s::integer" if vendor == "postgresql" else "%s"
    table = parameter_table(
        vendor, rows, names, [field.cast_db_type(connection) for field in fields]
    )
    sessions = quote(Session._meta.db_table)
    lock = _APPENDING.get(vendor)
    unchanged = ""
    if lock is not None:
        # The next position is as of the statement's start. If the change number of the locked row
        # is another, an exclusive operation was committed while this statement waited.
        unchanged = (
            f" AND (SELECT l.{quote('change')} FROM {sessions} l "
            f"WHERE l.{quote('id')} = a.{quote('session_id')}{lock}) = s.{quote('change')}"
        )
    columns = [quote(cursors.column_name(field)) for field in fields]
    columns += map(quote, (*_SAME, "message_id"))
    conditions = "".join(
        [
            unchanged,
            # A redaction raises the change number too.
            f" AND s.{quote('redaction_epoch')} = %s" if shape.epoch else "",
            " AND n.next = %s" if shape.expected else "",
        ]
    )
    # A single row that conflicts is skipped; of several rows, some might be inserted.
    conflict = " ON CONFLICT DO NOTHING" if vendor == "postgresql" and rows == 1 else ""
    returning = ""
    if connection.features.can_return_rows_from_bulk_insert:
        returned = ("message_id", *_SAME) if vendor == "sqlite" else ("message_id",)
        returning = f" RETURNING {', '.join(map(quote, returned))}"
    insert_sql = (
        f"INSERT INTO {quote(_messages.db_table)} ({', '.join(columns)}) "
        f"SELECT {', '.join(f'r.{name}' for name in names)}, "
        f"a.{quote('session_id')}, a.{quote('id')}, {number}, 0, s.{quote('change')}, n.next + r.p "
        f"FROM ({table}) r "
        f"CROSS JOIN (SELECT COALESCE((SELECT m.{quote('message_id')} + 1 "
        f"FROM {quote(_messages.db_table)} m WHERE m.{quote('agent_id')} = %s "
        f"AND m.{quote('branch')} = %s ORDER BY m.{quote('message_id')} DESC LIMIT 1), 0) "
        f"AS next) n "
        f"CROSS JOIN {quote(SessionAgent._meta.db_table)} a "
        f"CROSS JOIN {sessions} s WHERE a.{quote('id')} = %s "
        f"AND s.{quote('id')} = a.{quote('session_id')}{conditions}{conflict}{returning}"
    )
    if not shape.counting:
        return insert_sql
    # Counts only if rows were inserted; an error undoes both.
    return (
        f"WITH written AS ({insert_sql}), counted AS ({_count_sql(connection, shape.cached)} "
        f"AND EXISTS (SELECT 1 FROM written)) SELECT {quote('message_id')} FROM written"
    )


def _more_sql(connection: BaseDatabaseWrapper, fields: Sequence[models.Field[Any, Any]]) -> str:
    quote = connection.ops.quote_name
    columns = [*map(cursors.column_name, fields), *_SAME, "message_id"]
    return (
        f"INSERT INTO {quote(_messages.db_table)} ({', '.join(map(quote, columns))}) "
        f"VALUES ({', '.join(['%s'] * len(columns))})"
    )


_TOKENS = ("input_tokens", "output_tokens", "cost")
_CACHED = ("cache_read_tokens", "cache_write_tokens")


def _count_sql(connection: BaseDatabaseWrapper, cached: bool) -> str:
    quote = connection.ops.quote_name
    # Without a cast, PostgreSQL does not know the type of NULL.
    on_postgresql = connection.vendor == "postgresql"
    parameter, flag = ("%s::bigint", "%s::boolean") if on_postgresql else ("%s", "%s")
    # Tokens stay unknown, which is NULL, until a number is added.
    increments = "".join(
        f"{quote(name)} = {quote(name)} {added}, "
        for name, added in (
            ("message_count", "+ %s"),
            ("error_count", "+ %s"),
            ("has_errors", f"OR {flag}"),
        )
    ) + "".join(
        f"{quote(name)} = COALESCE({quote(name)} + {parameter}, {quote(name)}, {parameter}), "
        for name in (*_TOKENS, *(_CACHED if cached else ()))
    )
    return (
        f"UPDATE {quote(_sessions.db_table)} SET {increments}{quote('last_activity_at')} = %s, "
        f"{quote('updated_at')} = %s WHERE {quote('id')} = %s"
    )


def _counted_values(
    connection: BaseDatabaseWrapper, counting: CounterUpdate, cached: bool
) -> list[Any]:
    at = connection.ops.adapt_datetimefield_value(counting.at)
    spent = counting.spent
    read, written = spent.input_tokens, spent.output_tokens
    cost = spent.cost
    session = counting.session.hex
    counts = spent.messages, spent.errors, spent.errors > 0
    values = [*counts, read, read, written, written, cost, cost]
    if cached:
        kept, stored = spent.cache_read_tokens, spent.cache_write_tokens
        values += [kept, kept, stored, stored]
    return [*values, at, at, session]


def parameter_table(vendor: str, rows: int, names: list[str], types: list[str | None]) -> str:
    """Return a SELECT of the parameters: the index of each row, and its values."""
    if rows == ANY_NUMBER:
        # One statement with few parameters for any number of rows, which psycopg can prepare.
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
    # Without a cast, PostgreSQL treats a NULL or string parameter as text.
    values = zip(["integer", *types], names, strict=True)
    return f"SELECT {', '.join(f'%s::{type_} AS {name}' for type_, name in values)}"


_ESCAPED_CHARACTERS = re.compile(r'[\\"]')


def array_literal(values: Iterable[Any]) -> str:
    """Return a PostgreSQL array literal, several times faster than the driver.

    https://www.postgresql.org/docs/current/arrays.html#ARRAYS-IO
    """
    elements = ["NULL" if value is None else _element(str(value)) for value in values]
    return f"{{{','.join(elements)}}}"


def _element(text: str) -> str:
    if '"' in text:
        text = (
            _ESCAPED_CHARACTERS.sub(r"\\\g<0>", text) if "\\" in text else text.replace('"', '\\"')
        )
    elif "\\" in text:
        text = text.replace("\\", "\\\\")
    return f'"{text}"'


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


class RedactedRow(NamedTuple):
    """A message's redacted version."""

    key: UUID
    revision: int
    payload: str
    neutral: Mapping[str, Any]
    at: datetime


def redact_rows(using: str, rows: Sequence[RedactedRow], event: UUID, *, change: int) -> int:
    """Write redacted versions of messages, and return how many had the expected revision.

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
            row.payload,
            adapt("redacted_at", row.at),
            adapt("redaction", event),
            change,
            row.neutral["role"],
            row.neutral["text"],
            adapt("updated_at", row.neutral["updated_at"]),
            adapt("id", row.key),
            row.revision,
        ]
        for row in rows
    ]
    with connection.cursor() as cursor:
        cursor.executemany(sql, parameters)
        return int(cursor.rowcount)
