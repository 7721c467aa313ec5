"""Values exchanged between an SDK's storage and the store of its snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django_agent_sessions.content.message_references import referenced_ranges
from django_agent_sessions.models import Branch
from django_agent_sessions.values.message_version import MessageVersion
from django_agent_sessions.values.records import AgentRecord, AgentState


@dataclass(frozen=True, slots=True)
class SaveState:
    """The state of an agent at the beginning of a save, with the session's row locked."""

    session: UUID
    epoch: int
    agent: AgentRecord
    revision: int | None
    last: MessageVersion | None
    """The last message of the conversation; while it exists, so do all before it."""

    @property
    def end(self) -> int:
        """The position after the last message."""
        return 0 if self.last is None else self.last.position + 1


@dataclass(frozen=True, slots=True)
class SnapshotWrite:
    """What a save writes."""

    document: Any
    messages: list[Any]
    appended: Sequence[Any] = ()
    keep: int | None = None
    kind: str = Branch.Kind.REWOUND
    updated: Sequence[tuple[int, Any]] = ()
    state: AgentState | None = None

    @property
    def length(self) -> int:
        """The position after the last referenced message."""
        return max((stop for _, stop in referenced_ranges(self.messages)), default=0)


@dataclass(frozen=True, slots=True)
class LoadedSnapshot:
    """A snapshot with the messages that it references."""

    session: UUID
    epoch: int
    agent: UUID
    revision: int | None
    last: MessageVersion | None
    branch: int
    messages: list[Any]
    document: Any
    contents: dict[int, Any] = field(default_factory=dict)
    redacted: frozenset[int] = frozenset()
