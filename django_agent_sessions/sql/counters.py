"""The counters of a session's row: messages, errors, tokens, cost and the last activity.

Several times faster than the ORM, because every append updates them. Only what changes is written:
most messages have no tokens and no error.
"""

from __future__ import annotations

from datetime import datetime
from functools import cache
from typing import Any, NamedTuple
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper

from django_agent_sessions.models import Session
from django_agent_sessions.models.querysets import ACTIVITY_INTERVAL
from django_agent_sessions.values.records import Usage

_SESSIONS = Session._meta.db_table
_TOKENS = ("input_tokens", "output_tokens", "cost")
_CACHED = ("cache_read_tokens", "cache_write_tokens")


class CounterUpdate(NamedTuple):
    """A change of a session's counters."""

    session: UUID
    spent: Usage
    at: datetime


class CountedColumns(NamedTuple):
    """Which columns an update of counters writes, besides the number of messages."""

    errors: bool
    tokens: bool
    cached: bool
    activity: bool

    @classmethod
    def of(cls, spent: Usage, *, activity: bool) -> CountedColumns:
        tokens = not (spent.input_tokens is spent.output_tokens is spent.cost is None)
        cached = not (spent.cache_read_tokens is spent.cache_write_tokens is None)
        return cls(spent.errors != 0, tokens, cached, activity)

    @property
    def nullable(self) -> tuple[str, ...]:
        """The columns that are NULL until a number is added, which is not the same as 0."""
        return (*(_TOKENS if self.tokens else ()), *(_CACHED if self.cached else ()))


def update_counters(
    connection: BaseDatabaseWrapper, cursor: Any, update: CounterUpdate, *, activity: bool = True
) -> None:
    """Update a session's counters; ``activity`` is whether its last activity may be old."""
    columns = CountedColumns.of(update.spent, activity=activity)
    cursor.execute(count_sql(connection.vendor, columns), count_values(connection, update, columns))


@cache
def count_sql(vendor: str, columns: CountedColumns) -> str:
    """Return the statement for the parameters of :func:`count_values`."""
    # Without a cast, PostgreSQL does not know the type of NULL.
    number, time = ("%s::bigint", "%s::timestamptz") if vendor == "postgresql" else ("%s", "%s")
    changes = ["message_count = message_count + %s"]
    if columns.errors:
        # In this order, because MariaDB assigns from left to right.
        changes += ["has_errors = has_errors OR %s > 0", "error_count = error_count + %s"]
    changes += [
        f"{name} = COALESCE({name} + {number}, {name}, {number})" for name in columns.nullable
    ]
    changes.append(f"updated_at = {time}")
    if columns.activity:
        changes.append(
            f"last_activity_at = CASE WHEN last_activity_at < {time} THEN {time} "
            "ELSE last_activity_at END"
        )
    return f"UPDATE {_SESSIONS} SET {', '.join(changes)} WHERE id = %s"


def count_values(
    connection: BaseDatabaseWrapper, update: CounterUpdate, columns: CountedColumns
) -> list[Any]:
    """Return the parameters of :func:`count_sql`."""
    values: list[Any] = [update.spent.messages]
    if columns.errors:
        values += [update.spent.errors] * 2
    for name in columns.nullable:
        values += [getattr(update.spent, name)] * 2
    now = connection.ops.adapt_datetimefield_value(update.at)
    values.append(now)
    if columns.activity:
        values += [old_activity(connection, update), now]
    return [*values, update.session.hex]


def old_activity(connection: BaseDatabaseWrapper, update: CounterUpdate) -> Any:
    """Return the parameter for the time before which a last activity is old."""
    return connection.ops.adapt_datetimefield_value(update.at - ACTIVITY_INTERVAL)
