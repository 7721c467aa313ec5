"""What is told: events, each with how far the session was told with it, and pages of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from django_agent_sessions.windows import Row

from .cursor import Cursor
from .states import Head


class Change(StrEnum):
    """What happened to a message."""

    NEW = "new"
    CHANGED = "changed"
    REDACTED = "redacted"


@dataclass(frozen=True, slots=True)
class MessageEvent:
    """A message is new, changed or redacted."""

    cursor: Cursor
    row: Row
    change: Change


@dataclass(frozen=True, slots=True)
class RemovedEvent:
    """The messages of an agent from a position on are not what was told of them."""

    cursor: Cursor
    agent: UUID
    position: int


@dataclass(frozen=True, slots=True)
class SessionEvent:
    """What people note about the session changed."""

    cursor: Cursor
    head: Head


class Reason(StrEnum):
    """Why it is not told what happened."""

    AGENT_REMOVED = "agent removed"
    MANY_AGENTS = "many agents"


@dataclass(frozen=True, slots=True)
class ResetEvent:
    """What happened cannot be told one by one: the session is to be read anew."""

    cursor: Cursor
    reason: Reason


Event = MessageEvent | RemovedEvent | SessionEvent | ResetEvent


@dataclass(frozen=True, slots=True)
class Page:
    """What comes next."""

    events: list[Event]
    cursor: Cursor
    """How far the session was told with them."""

    more: bool
    """Whether there may be more at once."""
