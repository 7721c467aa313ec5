"""The values that pass between an SDK's storage and the store of its snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

from django_agent_sessions.models import Branch
from django_agent_sessions.records import AgentRecord, AgentState


class LastRow(NamedTuple):
    """The last message of a conversation: as long as it is there, so are all before it."""

    position: int
    key: UUID
    revision: int


@dataclass(frozen=True, slots=True)
class Head:
    """What a save finds, with the session's row locked.

    Attributes:
        session: Primary key of the session.
        epoch: Its redaction epoch.
        agent: The agent, on the main branch.
        revision: Of the agent's latest snapshot; None if there is none.
        last: The last message of the main branch, if there is one.
    """

    session: UUID
    epoch: int
    agent: AgentRecord
    revision: int | None
    last: LastRow | None

    @property
    def end(self) -> int:
        """The position behind the last message."""
        return 0 if self.last is None else self.last.position + 1


@dataclass(frozen=True, slots=True)
class Saving:
    """What a save writes.

    Attributes:
        document: All of the snapshot but its messages.
        messages: References to messages, as ``Snapshot.messages`` has them.
        appended: Messages that are new, for the end of the conversation.
        keep: Position of the last message that stays on the main branch; None if all do.
        kind: What a side branch is that takes the others.
        updated: Messages that changed, by their positions.
        state: The agent's state; None if it stays as it is.
    """

    document: Any
    messages: list[Any]
    appended: Sequence[Any] = ()
    keep: int | None = None
    kind: str = Branch.Kind.REWOUND
    updated: Sequence[tuple[int, Any]] = ()
    state: AgentState | None = None

    @property
    def length(self) -> int:
        """The position behind the last message that it refers to."""
        return max((stop for _, stop in spans_of(self.messages)), default=0)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A snapshot as it was read.

    Attributes:
        session: Primary key of its session.
        epoch: The session's redaction epoch.
        agent: Primary key of its agent.
        revision: Of the agent's latest snapshot; None if there is none.
        last: The last message of the main branch.
        branch: The branch that it refers to.
        messages: Its references.
        document: All of it but its messages.
        contents: What its messages say, by position, redacted where they were redacted.
        redacted: Positions of those that were.
    """

    session: UUID
    epoch: int
    agent: UUID
    revision: int | None
    last: LastRow | None
    branch: int
    messages: list[Any]
    document: Any
    contents: dict[int, Any] = field(default_factory=dict)
    redacted: frozenset[int] = frozenset()


def spans_of(messages: Sequence[Any]) -> list[list[int]]:
    """Tells which messages of the conversation a snapshot refers to.

    Args:
        messages: References, as ``Snapshot.messages`` has them.

    Returns:
        Pairs of the first position and the one behind the last; none for a message that only the
        snapshot has.
    """
    return [
        item if isinstance(item, list) else [item["position"], item["position"] + 1]
        for item in messages
        if isinstance(item, list) or "position" in item
    ]
