"""Insert an agent, its first messages and perhaps its session in one statement, on PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper

from django_agent_sessions.models import Session, SessionAgent, SessionMessage
from django_agent_sessions.sql import cursors, message_writes


def is_possible(connection: BaseDatabaseWrapper, rows: Sequence[models.Model]) -> bool:
    """Return whether these rows can be inserted together: no project receives their signals."""
    return connection.vendor == "postgresql" and not any(
        cursors.has_listeners(type(row)) for row in rows
    )


def insert_together(
    connection: BaseDatabaseWrapper,
    agent: SessionAgent,
    messages: Sequence[Sequence[Any]],
    *,
    session: Session | None,
    epoch: int | None,
) -> bool:
    """Insert all rows or none; return whether they were inserted.

    ``messages`` has database values in the order of :func:`message_writes.row_fields`. A session
    that is given is new; otherwise the agent's session exists, and its redaction epoch must be
    ``epoch`` if that is not None. Nothing is inserted if the session or the agent is there already.
    """
    several, fields = len(messages) > 1, message_writes.row_fields(messages)
    shape = several, session is not None, epoch is not None, fields
    sql = _statements.get(shape)
    if sql is None:
        sql = _statements[shape] = _sql(connection, *shape)
    if session is not None:
        parameters = _values(session, connection)
    else:
        parameters = [agent.session_id.hex, *([] if epoch is None else [epoch])]
    parameters += _values(agent, connection)
    if several:
        parameters += map(message_writes.array_literal, zip(*messages, strict=True))
    else:
        parameters += [0, *messages[0]]
    return bool(cursors.fetch_rows(connection, sql, parameters))


def _values(row: models.Model, connection: BaseDatabaseWrapper) -> list[Any]:
    values = cursors.row_values(row, connection)
    for index, field in enumerate(row._meta.concrete_fields):
        # The driver's wrapper of JSON cannot be sent as text.
        if isinstance(field, models.JSONField) and not isinstance(values[index], str | None):
            values[index] = json.dumps(getattr(row, field.attname), cls=field.encoder)
    return values


_statements: dict[tuple[bool, bool, bool, tuple[models.Field[Any, Any], ...]], str] = {}


def _sql(
    connection: BaseDatabaseWrapper,
    several: bool,
    new_session: bool,
    epoch: bool,
    fields: tuple[models.Field[Any, Any], ...],
) -> str:
    quote = connection.ops.quote_name
    sessions, key, change = map(quote, (Session._meta.db_table, "id", "change"))
    names = [f"c{index}" for index in range(len(fields))]
    table = message_writes.parameter_table(
        "postgresql",
        message_writes.ANY_NUMBER if several else 1,
        names,
        [field.cast_db_type(connection) for field in fields],
    )
    columns = [quote(cursors.column_name(field)) for field in fields]
    columns += map(quote, ("session_id", "agent_id", "branch", "revision", "change", "message_id"))
    session_columns, session_values = _columns(connection, Session)
    agent_columns, agent_values = _columns(connection, SessionAgent)
    if new_session:
        opened = (
            f"INSERT INTO {sessions} ({session_columns}) VALUES ({session_values}) "
            f"ON CONFLICT DO NOTHING RETURNING {key}, {change}"
        )
    else:
        # As in an append, another change number tells that the statement waited.
        opened = (
            f"SELECT s.{key}, s.{change} FROM {sessions} s WHERE s.{key} = %s"
            + (f" AND s.{quote('redaction_epoch')} = %s" if epoch else "")
            + f" AND (SELECT l.{change} FROM {sessions} l WHERE l.{key} = s.{key}"
            f" FOR NO KEY UPDATE) = s.{change}"
        )
    return (
        f"WITH opened AS ({opened}), "
        f"made AS (INSERT INTO {quote(SessionAgent._meta.db_table)} ({agent_columns}) "
        f"SELECT {agent_values} FROM opened ON CONFLICT DO NOTHING "
        f"RETURNING {key}, {quote('session_id')}) "
        f"INSERT INTO {quote(SessionMessage._meta.db_table)} ({', '.join(columns)}) "
        f"SELECT {', '.join(f'r.{name}' for name in names)}, "
        f"m.{quote('session_id')}, m.{key}, 0, 0, o.{change}, r.p "
        f"FROM ({table}) r CROSS JOIN made m CROSS JOIN opened o RETURNING {quote('message_id')}"
    )


def _columns(connection: BaseDatabaseWrapper, model: type[models.Model]) -> tuple[str, str]:
    """Return the names of a model's columns, and their parameters."""
    fields = model._meta.concrete_fields
    columns = [connection.ops.quote_name(cursors.column_name(field)) for field in fields]
    return ", ".join(columns), ", ".join(["%s"] * len(fields))
