"""Append to many conversations in one statement, on PostgreSQL.

It waits for no lock. A session's row that another transaction has locked is left out, so that its
conversation does not make the others wait, and two groups cannot lock each other out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from django_agent_sessions.models import Session, SessionAgent, SessionMessage
from django_agent_sessions.models.querysets import ACTIVITY_INTERVAL

from . import cursors
from .appends import array_literal, postgresql_types
from .counters import CountedColumns, CounterUpdate
from .message_writes import EMPTY_FIELDS, ROW_FIELDS, WIDE_FIELDS

_messages = SessionMessage._meta
_sessions = Session._meta


class GroupedRows(NamedTuple):
    """The rows that one conversation gets; see :func:`appends.append`."""

    agent: UUID
    branch: int
    session: UUID
    rows: Sequence[Sequence[Any]]
    expected: int | None
    epoch: int | None
    counting: CounterUpdate | None


def append_group(using: str, appends: Sequence[GroupedRows]) -> dict[UUID, int]:
    """Append to conversations of different sessions, and return the first positions by agent.

    An agent is missing if the row of its session is locked, or :func:`appends.append` would
    return None; nothing was written to it then. If another writer gets a position meanwhile, it
    raises, and nothing was written to any.
    """
    connection = connections[using]
    times = [one.counting.at for one in appends if one.counting is not None]
    wide = any(len(row) > len(ROW_FIELDS) for one in appends for row in one.rows)
    spent = [one.counting and one.counting.spent for one in appends]
    cached = any(each and CountedColumns.of(each, activity=True).cached for each in spent)
    sql = _sql(connection, _Shape(bool(times), wide, cached))
    parameters: list[Any] = [
        _array(one.agent.hex for one in appends),
        _array(one.branch for one in appends),
        _array(one.expected for one in appends),
        _array(one.epoch for one in appends),
        _array(each and each.messages for each in spent),
        _array(each and each.errors for each in spent),
        _array(each and each.input_tokens for each in spent),
        _array(each and each.output_tokens for each in spent),
        _array(each and each.cost for each in spent),
        *(
            _array(each and getattr(each, name) for each in spent)
            for name in (_CACHED if cached else ())
        ),
        _array(one.agent.hex for one in appends for _ in one.rows),
        _array(index for one in appends for index, _ in enumerate(one.rows)),
        *map(array_literal, zip(*_rows(appends, wide=wide), strict=True)),
    ]
    if times:
        adapt, at = connection.ops.adapt_datetimefield_value, max(times)
        parameters += [
            adapt(at - ACTIVITY_INTERVAL),
            adapt(at),
            adapt(at),
            _array(one.session.hex for one in appends),
        ]
    found = cursors.fetch_rows(connection, sql, parameters)
    return {UUID(str(agent)): int(position) for agent, position in found}


def _rows(appends: Sequence[GroupedRows], *, wide: bool) -> Iterator[Sequence[Any]]:
    """Yield all rows, with the same fields."""
    empty = tuple(EMPTY_FIELDS.values())
    for row in (row for one in appends for row in one.rows):
        yield (*row, *empty) if wide and len(row) == len(ROW_FIELDS) else row


def _array(values: Iterable[Any]) -> str:
    """Return an array literal of values without special characters."""
    return f"{{{','.join(['NULL' if value is None else str(value) for value in values])}}}"


_CACHED = ("cache_read_tokens", "cache_write_tokens")


class _Shape(NamedTuple):
    """What the SQL depends on."""

    counting: bool
    wide: bool
    cached: bool


def _sql(connection: BaseDatabaseWrapper, shape: _Shape) -> str:
    counted = _count_sql(connection, shape) if shape.counting else ""
    return (
        f"{_append_sql(connection, shape)}{counted} "
        "SELECT agent, min(position) FROM written GROUP BY agent"
    )


def _append_sql(connection: BaseDatabaseWrapper, shape: _Shape) -> str:
    quote = connection.ops.quote_name
    fields = WIDE_FIELDS if shape.wide else ROW_FIELDS
    columns = [quote(cursors.column_name(field)) for field in fields]
    names = [f"c{index}" for index in range(len(fields))]
    arrays = ", ".join(f"%s::{type_}[]" for type_ in postgresql_types(len(fields)))
    cached = _CACHED if shape.cached else ()
    places = map(quote, ("session_id", "agent_id", "branch", "message_id", "revision", "change"))
    sessions, messages = quote(_sessions.db_table), quote(_messages.db_table)
    # OFFSET 0 makes the planner look up each row by its key, also with outdated statistics.
    return (
        "WITH wanted AS (SELECT * FROM unnest(%s::uuid[], %s::integer[], %s::integer[], "
        "%s::integer[], %s::integer[], %s::integer[], %s::bigint[], %s::bigint[], "
        f"%s::bigint[]{', %s::bigint[]' * len(cached)}) AS w "
        f"({', '.join((*_WANTED, *cached))})), "
        "placed AS MATERIALIZED (SELECT w.*, a.session, s.change, COALESCE(("
        f"SELECT m.{quote('message_id')} + 1 FROM {messages} m "
        f"WHERE m.{quote('agent_id')} = w.agent AND m.{quote('branch')} = w.branch "
        f"ORDER BY m.{quote('message_id')} DESC LIMIT 1), 0) AS next FROM wanted w "
        f"CROSS JOIN LATERAL (SELECT {quote('session_id')} AS session "
        f"FROM {quote(SessionAgent._meta.db_table)} "
        f"WHERE {quote('id')} = w.agent OFFSET 0) a "
        f"CROSS JOIN LATERAL (SELECT {quote('change')} AS change, "
        f"{quote('redaction_epoch')} AS epoch FROM {sessions} "
        f"WHERE {quote('id')} = a.session OFFSET 0) s "
        "WHERE (w.epoch IS NULL OR w.epoch = s.epoch) AND s.change = ("
        f"SELECT l.{quote('change')} FROM {sessions} l WHERE l.{quote('id')} = a.session "
        "FOR NO KEY UPDATE SKIP LOCKED)), "
        f"written AS (INSERT INTO {messages} ({', '.join([*columns, *places])}) "
        f"SELECT {', '.join(f'r.{name}' for name in names)}, "
        "p.session, p.agent, p.branch, p.next + r.p, 0, p.change "
        f"FROM unnest(%s::uuid[], %s::integer[], {arrays}) AS r (agent, p, {', '.join(names)}) "
        "JOIN placed p ON p.agent = r.agent WHERE p.expected IS NULL OR p.expected = p.next "
        f"RETURNING {quote('agent_id')} AS agent, {quote('message_id')} AS position)"
    )


_WANTED = (
    "agent",
    "branch",
    "expected",
    "epoch",
    "messages",
    "errors",
    "input_tokens",
    "output_tokens",
    "cost",
)


def _count_sql(connection: BaseDatabaseWrapper, shape: _Shape) -> str:
    quote = connection.ops.quote_name
    # Tokens stay unknown, which is NULL, until a number is added.
    tokens = "".join(
        f"{quote(name)} = COALESCE(s.{quote(name)} + p.{name}, s.{quote(name)}, p.{name}), "
        for name in ("input_tokens", "output_tokens", "cost", *(_CACHED if shape.cached else ()))
    )
    return (
        f", counted AS (UPDATE {quote(_sessions.db_table)} s SET "
        f"{quote('message_count')} = s.{quote('message_count')} + p.messages, "
        f"{quote('error_count')} = s.{quote('error_count')} + p.errors, "
        f"{quote('has_errors')} = s.{quote('has_errors')} OR p.errors > 0, {tokens}"
        f"{quote('last_activity_at')} = CASE WHEN s.{quote('last_activity_at')} < %s::timestamptz "
        f"THEN %s::timestamptz ELSE s.{quote('last_activity_at')} END, "
        f"{quote('updated_at')} = %s::timestamptz "
        f"FROM placed p WHERE s.{quote('id')} = ANY(%s::uuid[]) AND s.{quote('id')} = p.session "
        "AND p.messages IS NOT NULL AND EXISTS (SELECT 1 FROM written w WHERE w.agent = p.agent))"
    )
