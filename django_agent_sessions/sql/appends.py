"""Append messages to a conversation: a statement that also decides their position.

The position comes from the database's present content, so that an append is atomic and needs no
round trip before. The session's row is locked meanwhile, by the statement itself where it must be:
operations that change or remove messages raise its change number under that lock.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from functools import cache, lru_cache
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from django_agent_sessions.models import Session, SessionAgent, SessionMessage

from .counters import (
    CountedColumns,
    CounterUpdate,
    count_sql,
    count_values,
    old_activity,
    update_counters,
)
from .cursors import fetch_rows
from .message_writes import WIDE_FIELDS

_SESSIONS, _AGENTS, _MESSAGES = (
    model._meta.db_table for model in (Session, SessionAgent, SessionMessage)
)


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
    """Append messages, and count them: all of it or nothing.

    Args:
        using: The alias of the database.
        agent: The key of the agent.
        rows: Database values in the order of :data:`WIDE_FIELDS`, perhaps without the last ones.
        branch: The number of the agent's branch.
        expected: The position that the first message must get.
        epoch: The redaction epoch that the session must have.
        counting: How the session's counters change. MariaDB and MySQL need a transaction for it.

    Returns:
        The first position; None if the agent was deleted, a condition does not hold, or another
        writer got the position.
    """
    connection = connections[using]
    place = [agent.hex, branch, agent.hex]
    place += [value for value in (epoch, expected) if value is not None]
    shape = _Shape(len(rows[0]), epoch is not None, expected is not None)
    return _BY_VENDOR[connection.vendor](connection, shape, rows, branch, place, counting)


class _Shape(NamedTuple):
    """What the SQL of an append depends on."""

    width: int
    epoch: bool
    expected: bool


def _append_sqlite(
    connection: BaseDatabaseWrapper,
    shape: _Shape,
    rows: Sequence[Sequence[Any]],
    branch: int,
    place: Sequence[Any],
    counting: CounterUpdate | None,
) -> int | None:
    """Insert the first message, whose statement finds the position, and then the others.

    SQLite lets nobody write in between.
    """
    several = len(rows) > 1 or counting is not None
    begins = several and connection.get_autocommit()
    # SQLite writes each index with a column of a statement, also if its value stays: the statement
    # that counts is told whether the last activity is old.
    old = [] if counting is None else [old_activity(connection, counting)]
    parameters = [*rows[0], branch, *place, *old]
    with (
        transaction.atomic(connection.alias) if begins else nullcontext(),
        connection.cursor() as cursor,
    ):
        cursor.execute(_sqlite_statement(shape, counting is not None), parameters)
        first = cursor.fetchone()
        if first is None:
            return None
        is_old, position, *same = first
        if len(rows) > 1:
            others = enumerate(rows[1:], position + 1)
            # SQLite compiles a statement for one row faster.
            cursor.executemany(
                _sqlite_others(shape.width), [(*row, number, *same) for number, row in others]
            )
        if counting is not None:
            update_counters(connection, cursor, counting, activity=bool(is_old))
    return int(position)


@cache
def _sqlite_statement(shape: _Shape, counts: bool) -> str:
    old = f"(SELECT s.last_activity_at < %s FROM {_SESSIONS} s WHERE s.id = {_MESSAGES}.session_id)"
    return _one_line(f"""
        INSERT INTO {_MESSAGES} ({_columns(shape.width)}, branch, {_SAME}, message_id)
        SELECT {_parameters(shape.width)}, %s, a.session_id, a.id, 0, s.change, n.next
        FROM {_NEXT} n CROSS JOIN {_AGENTS} a CROSS JOIN {_SESSIONS} s
        WHERE a.id = %s AND s.id = a.session_id{_conditions(shape)}
        RETURNING {old if counts else "0"}, message_id, branch, {_SAME}
    """)


@cache
def _sqlite_others(width: int) -> str:
    columns = f"{_columns(width)}, message_id, branch, {_SAME}"
    return f"INSERT INTO {_MESSAGES} ({columns}) VALUES ({_parameters(width + 6)})"


def _append_postgresql(
    connection: BaseDatabaseWrapper,
    shape: _Shape,
    rows: Sequence[Sequence[Any]],
    branch: int,
    place: Sequence[Any],
    counting: CounterUpdate | None,
) -> int | None:
    """Insert all messages and count them in one statement."""
    several = len(rows) > 1
    values = map(array_literal, zip(*rows, strict=True)) if several else rows[0]
    parameters = [branch, *values, *place]
    sql = _postgresql_statement(shape, several)
    if counting is not None:
        columns = CountedColumns.of(counting.spent, activity=True)
        sql = _postgresql_counting(shape, several, columns)
        parameters += count_values(connection, counting, columns)
    positions = fetch_rows(connection, sql, parameters)
    return min(positions)[0] if positions else None


@cache
def _postgresql_statement(shape: _Shape, several: bool) -> str:
    """Return the statement, which locks the session's row.

    The next position is as of the statement's start. If the change number of the locked row is
    another, an exclusive operation was committed while the statement waited. PostgreSQL has no lock
    that conflicts with those but not with other appends: appends to a session are serialized.
    """
    names = [f"c{index}" for index in range(shape.width)]
    # Without a cast, PostgreSQL treats a NULL or a string as text.
    types = postgresql_types(shape.width)
    if several:
        # One statement with few parameters for any number of rows, which psycopg can prepare.
        arrays = ", ".join(f"%s::{type_}[]" for type_ in types)
        rows = f"unnest({arrays}) WITH ORDINALITY r ({', '.join(names)}, number)"
    else:
        values = ", ".join(f"%s::{type_}" for type_ in types)
        rows = f"(VALUES ({values}, 1)) r ({', '.join(names)}, number)"
    # Of several rows that conflict, some might be inserted.
    conflict = "" if several else "ON CONFLICT DO NOTHING"
    return _one_line(f"""
        INSERT INTO {_MESSAGES} ({_columns(shape.width)}, branch, {_SAME}, message_id)
        SELECT {", ".join(f"r.{name}" for name in names)}, %s::integer,
            a.session_id, a.id, 0, s.change, n.next + r.number - 1
        FROM {rows} CROSS JOIN {_NEXT} n CROSS JOIN {_AGENTS} a CROSS JOIN {_SESSIONS} s
        WHERE a.id = %s AND s.id = a.session_id AND s.change = (
            SELECT l.change FROM {_SESSIONS} l WHERE l.id = a.session_id FOR NO KEY UPDATE
        ){_conditions(shape)}
        {conflict} RETURNING message_id
    """)


@cache
def _postgresql_counting(shape: _Shape, several: bool, columns: CountedColumns) -> str:
    # Counts only if rows were inserted; an error undoes both.
    return _one_line(f"""
        WITH written AS ({_postgresql_statement(shape, several)}),
        counted AS ({count_sql("postgresql", columns)} AND EXISTS (SELECT 1 FROM written))
        SELECT message_id FROM written
    """)


def _append_mysql(
    connection: BaseDatabaseWrapper,
    shape: _Shape,
    rows: Sequence[Sequence[Any]],
    branch: int,
    place: Sequence[Any],
    counting: CounterUpdate | None,
) -> int | None:
    """Insert all messages in one statement, and count them in another: MariaDB and MySQL."""
    values = [value for number, row in enumerate(rows) for value in (number, *row)]
    parameters = [branch, *values, *place]
    returns = connection.features.can_return_rows_from_bulk_insert
    sql = _mysql_statement(shape, len(rows), returns)
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        if not returns and cursor.rowcount:
            # MySQL has no RETURNING.
            cursor.execute(f"SELECT message_id FROM {_MESSAGES} WHERE id = %s", [rows[0][0]])
        positions = cursor.fetchall() if returns or cursor.rowcount else ()
        if positions and counting is not None:
            update_counters(connection, cursor, counting)
    return min(positions)[0] if positions else None


@lru_cache(64)
def _mysql_statement(shape: _Shape, count: int, returns: bool) -> str:
    """Return the statement; the lock is as :func:`_postgresql_statement` says.

    It is the lock that a foreign key takes, which blocks no other append.
    """
    names = ["number", *(f"c{index}" for index in range(shape.width))]
    row = f"SELECT {', '.join(f'%s AS {name}' for name in names)}"
    rows = " UNION ALL ".join([row, *[f"SELECT {_parameters(len(names))}"] * (count - 1)])
    return _one_line(f"""
        INSERT INTO {_MESSAGES} ({_columns(shape.width)}, branch,
            session_id, agent_id, revision, `change`, message_id)
        SELECT {", ".join(f"r.{name}" for name in names[1:])}, %s,
            a.session_id, a.id, 0, s.change, n.next + r.number
        FROM ({rows}) r CROSS JOIN {_NEXT} n CROSS JOIN {_AGENTS} a CROSS JOIN {_SESSIONS} s
        WHERE a.id = %s AND s.id = a.session_id AND s.change = (
            SELECT l.change FROM {_SESSIONS} l WHERE l.id = a.session_id LOCK IN SHARE MODE
        ){_conditions(shape)}
        {"RETURNING message_id" if returns else ""}
    """)


_BY_VENDOR = {"sqlite": _append_sqlite, "postgresql": _append_postgresql, "mysql": _append_mysql}

_NEXT = f"""(
    SELECT COALESCE((
        SELECT m.message_id + 1 FROM {_MESSAGES} m
        WHERE m.agent_id = %s AND m.branch = %s ORDER BY m.message_id DESC LIMIT 1
    ), 0) AS next
)"""
_SAME = "session_id, agent_id, revision, change"
"""The columns, besides the branch, of which all messages of an append have the same value."""


def _one_line(sql: str) -> str:
    """Return a statement as the log of a server shows it best."""
    return " ".join(sql.split())


def _columns(width: int) -> str:
    return ", ".join(str(field.column) for field in WIDE_FIELDS[:width])


def _parameters(count: int) -> str:
    return ", ".join(["%s"] * count)


def _conditions(shape: _Shape) -> str:
    # A redaction raises the change number too.
    epoch = " AND s.redaction_epoch = %s" if shape.epoch else ""
    return f"{epoch} AND n.next = %s" if shape.expected else epoch


_POSTGRESQL_TYPES = {
    "id": "uuid",
    "run_id": "uuid",
    "input_tokens": "bigint",
    "output_tokens": "bigint",
    "latency_ms": "bigint",
    "has_error": "boolean",
    "created_at": "timestamptz",
    "updated_at": "timestamptz",
    "cache_read_tokens": "bigint",
    "cache_write_tokens": "bigint",
}
"""The others are texts."""


def postgresql_types(width: int) -> list[str]:
    """Return the types of the first fields of a row."""
    return [_POSTGRESQL_TYPES.get(field.name, "text") for field in WIDE_FIELDS[:width]]


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
