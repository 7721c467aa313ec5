"""Convert between Strands' data classes and the store's records."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, cast

from django.conf import settings
from django.utils import timezone
from strands.types.content import Message
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

from django_agent_sessions.exceptions import PayloadError
from django_agent_sessions.values.records import (
    AgentRecord,
    AgentState,
    MessageRecord,
    NewMessage,
    SessionRecord,
)


@contextmanager
def name_in_error(what: str) -> Iterator[None]:
    """Add what could not be written to the message of a ``PayloadError``."""
    try:
        yield
    except PayloadError as error:
        raise PayloadError(f"{what}: {error}") from error


def from_iso(text: str) -> datetime:
    """Parse a timestamp of Strands; aware only if ``USE_TZ`` is set."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment if settings.USE_TZ else timezone.make_naive(moment)


def to_iso(moment: datetime) -> str:
    """Format a timestamp as Strands does: ISO 8601 in UTC, with microseconds if not zero."""
    if timezone.is_naive(moment):
        moment = timezone.make_aware(moment)
    return moment.astimezone(UTC).isoformat()


def session(record: SessionRecord) -> Session:
    """Convert a record to Strands' session."""
    return Session(
        session_id=record.session_id,
        session_type=_session_type(record.session_type),
        created_at=to_iso(record.created_at),
        updated_at=to_iso(record.updated_at),
    )


def _session_type(text: str) -> SessionType:
    try:
        return SessionType(text)
    except ValueError:
        # Of an import; Strands' own managers do not convert it either.
        return cast(SessionType, text)


def session_agent(record: AgentRecord) -> SessionAgent:
    """Convert a record to Strands' agent."""
    return SessionAgent(
        agent_id=record.agent_id,
        state=record.data.state,
        conversation_manager_state=record.data.conversation_manager_state,
        _internal_state=record.data.internal_state,
        created_at=to_iso(record.created_at),
        updated_at=to_iso(record.updated_at),
    )


def agent_state(agent: SessionAgent, window: Any = None) -> AgentState:
    """Convert Strands' agent to the state for the store."""
    return AgentState(
        state=agent.state,
        conversation_manager_state=agent.conversation_manager_state,
        internal_state=agent._internal_state,
        window=window,
    )


def session_message(record: MessageRecord) -> SessionMessage:
    """Convert a record to Strands' message."""
    return SessionMessage(
        message=cast(Message, record.message),
        message_id=record.message_id,
        redact_message=cast("Message | None", record.redact_message),
        created_at=to_iso(record.created_at),
        updated_at=to_iso(record.updated_at),
    )


def new_message(message: SessionMessage) -> NewMessage:
    """Convert Strands' message to a new message for the store."""
    return NewMessage(
        message.to_message(),
        created_at=from_iso(message.created_at),
        updated_at=from_iso(message.updated_at),
    )
