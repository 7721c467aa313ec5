"""Events, each with the cursor after it, and batches of events."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from django_agent_sessions.models import Session
from django_agent_sessions.queries.message_pages import MessagePreview

from .cursor import Cursor


class Change(StrEnum):
    """The kind of a change of a message."""

    NEW = "new"
    CHANGED = "changed"
    REDACTED = "redacted"


@dataclass(frozen=True, slots=True)
class MessageEvent:
    """A message is new, changed or redacted."""

    cursor: Cursor
    row: MessagePreview
    change: Change


@dataclass(frozen=True, slots=True)
class RemovedEvent:
    """The messages of an agent from a position on were deleted or replaced."""

    cursor: Cursor
    agent: UUID
    position: int


@dataclass(frozen=True, slots=True)
class SessionEvent:
    """The session's title, dates or flags changed."""

    cursor: Cursor


@dataclass(frozen=True, slots=True)
class FeedbackEvent:
    """The feedback on the session's messages changed.

    It has no content, because owners see only their own, and all viewers get the same events.
    """

    cursor: Cursor


class Reason(StrEnum):
    """Why the changes cannot be sent as events."""

    AGENT_REMOVED = "agent removed"
    MANY_AGENTS = "many agents"
    CHANGE_NUMBER = "change number"


@dataclass(frozen=True, slots=True)
class ResetEvent:
    """The changes cannot be sent one by one: the client has to read the session again."""

    cursor: Cursor
    reason: Reason


Event = MessageEvent | RemovedEvent | SessionEvent | FeedbackEvent | ResetEvent


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Events in order, all as of one change number of the session."""

    session: Session
    """The session after the events."""

    events: list[Event]
    cursor: Cursor
    """The cursor after the events."""

    more: bool
    """Whether there may be more events already."""

    @property
    def agents(self) -> set[UUID]:
        """The keys of the agents whose messages the events are about."""
        rows = {event.row.agent_id for event in self.events if isinstance(event, MessageEvent)}
        return rows | {event.agent for event in self.events if isinstance(event, RemovedEvent)}
