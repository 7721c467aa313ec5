"""The rows of agents: new ones, and their records with the state as its columns hold it."""

from __future__ import annotations

import logging
from datetime import datetime
from typing import Any
from uuid import UUID

from django.utils import timezone

from django_agent_sessions.content import dialects
from django_agent_sessions.content.masking.on_write import mask_on_write
from django_agent_sessions.content.message_references import map_references
from django_agent_sessions.db.retries import insert_unique
from django_agent_sessions.models import Session, SessionAgent
from django_agent_sessions.models.content_columns import ContentKind, content_columns_of
from django_agent_sessions.sql.statement_sizes import check_values_size
from django_agent_sessions.values.ids import new_id, validate_id
from django_agent_sessions.values.records import (
    AgentRecord,
    AgentState,
    SessionRecord,
    UnreadableState,
)
from django_agent_sessions.values.state_columns import STATES, state_columns, state_of

from ._row_errors import corrupt_columns, corrupt_state

logger = logging.getLogger("django_agent_sessions")


def clean_state(data: AgentState) -> AgentState:
    kinds = content_columns_of(SessionAgent).columns
    return AgentState(
        **{name: _clean(value, kinds[name]) for name, value in state_columns(data).items()}
    )


def _clean(value: Any, kind: ContentKind) -> Any:
    if kind is not ContentKind.REFERENCES:
        return mask_on_write(value, free=kind is ContentKind.DATA)

    def clean(index: int, item: Any) -> Any:
        return {**item, "message": mask_on_write(item["message"])} if "message" in item else item

    return map_references(value, clean)


def check_state_size(using: str, data: AgentState) -> None:
    check_values_size(using, *state_columns(data).values())


def agent_record(row: Any) -> AgentRecord:
    """Return the record of an agent, or of the columns that `sql.lookup` reads."""
    data = state_of(row)
    if columns := corrupt_columns(row, *STATES):
        problem = corrupt_state(f"agent {row.agent_id!r}", row, columns)
        logger.warning("%s", problem)
        data = UnreadableState(problem)
    return _agent_record(row, data)


def agent_without_state(row: Any) -> AgentRecord:
    return _agent_record(row, AgentState())


def _agent_record(row: Any, data: AgentState) -> AgentRecord:
    return AgentRecord(
        id=row.id,
        session=row.session_id,
        agent_id=row.agent_id,
        dialect=row.dialect,
        data=data,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def new_agent(
    using: str,
    session: SessionRecord | Session,
    agent_id: str | UUID,
    dialect: str,
    data: AgentState | None = None,
    key: UUID | None = None,
    created_at: datetime | None = None,
    updated_at: datetime | None = None,
) -> SessionAgent:
    """Return the row of an agent that is to be created."""
    # Not refused: an import has what other projects' dialects wrote.
    dialects.warn_of_unknown(dialect)
    data = clean_state(data or AgentState())
    check_state_size(using, data)
    now = created_at or timezone.now()
    return SessionAgent(
        id=key or new_id(),
        session_id=session.id,
        agent_id=validate_id(agent_id, "agent_id"),
        dialect=dialect,
        **state_columns(data),
        created_at=now,
        updated_at=updated_at or now,
    )


def insert_agent(using: str, row: SessionAgent) -> AgentRecord | None:
    """Insert a new agent; return None if the session has one with this id."""
    what = f"creating agent {row.agent_id!r} in session {row.session_id}"
    return agent_record(row) if insert_unique(using, row, what=what) else None
