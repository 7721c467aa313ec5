"""SELECT statements for a conversation or its end.

The ORM takes longer to build them than the database to run them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from django_agent_sessions.content import codec
from django_agent_sessions.models import SessionMessage
from django_agent_sessions.models.stored_text import opened_text
from django_agent_sessions.sql import cursors

_messages = SessionMessage._meta
_agent = _messages.get_field("agent")
_run = _messages.get_field("run_id")


def select_texts(
    using: str, agent: UUID, *, branch: int = 0, latest: int | None = None
) -> list[tuple[str]]:
    """Read the visible texts of messages."""
    return _contents(using, (_TEXT,), agent, branch, latest)


def select_contents(
    using: str, agent: UUID, *, branch: int = 0, latest: int | None = None
) -> list[tuple[int, str, bool]]:
    """Read positions, visible texts, and whether they were redacted."""
    columns = ("{message_id}", _TEXT, "{redacted_at} IS NOT NULL")
    return _contents(using, columns, agent, branch, latest)


def select_with_runs(
    using: str, agent: UUID, *, branch: int = 0
) -> list[tuple[int, str, UUID | None]]:
    """Read positions, visible texts and run ids."""
    rows = _contents(using, ("{message_id}", _TEXT, "{run_id}"), agent, branch, None)
    # Not every driver returns UUIDs, and many messages share a run id.
    run_ids = {run: _run.to_python(run) for run in {row[2] for row in rows}}
    if all(run is run_id for run, run_id in run_ids.items()):
        return rows
    return [(position, text, run_ids[run]) for position, text, run in rows]


def _contents(
    using: str, columns: Sequence[str], agent: UUID, branch: int, latest: int | None
) -> list[tuple[Any, ...]]:
    connection = connections[using]
    text = columns.index(_TEXT)
    sql = _contents_sql(connection, columns, latest is not None)
    parameters = [_agent.get_db_prep_save(agent, connection), branch]
    if latest is not None:
        parameters.append(latest)
    rows = cursors.fetch_rows(connection, sql, parameters)
    if codec.is_plain():
        return rows
    return [(*row[:text], opened_text(row[text]), *row[text + 1 :]) for row in rows]


# Building the SQL takes as long as running it, and there are few variants.
_TEXT = ""
_statements: dict[tuple[str, Sequence[str], bool, bool], str] = {}


def _contents_sql(connection: BaseDatabaseWrapper, columns: Sequence[str], latest: bool) -> str:
    shape = (connection.vendor, columns, latest, codec.is_plain())
    if shape not in _statements:
        selected = ", ".join(column or cursors.payload_text(connection) for column in columns)
        sql = (
            f"SELECT {selected} FROM {{messages}} "
            "WHERE {agent_id} = %s AND {branch} = %s ORDER BY {message_id}"
            + (" DESC LIMIT %s" if latest else "")
        )
        _statements[shape] = cursors.quote_names(connection, sql)
    return _statements[shape]
