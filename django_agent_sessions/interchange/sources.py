"""Sessions of any source as plain values, without models and SDKs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from django_agent_sessions.exceptions import AgentSessionsError
from django_agent_sessions.values.records import AgentState, TurnCost


@dataclass(frozen=True, slots=True)
class SourceMessage:
    """A message in a source.

    Attributes:
        payload: The SDK's payload: JSON values, or bytes.
        created_at: Time of creation, if known.
        updated_at: Time of the last change, if known.
        redact_message: Its redacted version, if it was redacted.
        branch: The branch of the conversation; 0 is the main one.
        run: Any text that identifies the invocation that created the message, if known.
        shared: Any text that identifies a message that is on several branches, if known.
        columns: Further values of this package's own format: primary key, position, token counts,
            model.
        skipped: Parts of the message that could not be read and are missing.
        feedback: The feedback on the message.
    """

    payload: Any
    created_at: datetime | None = None
    updated_at: datetime | None = None
    redact_message: Any = None
    branch: int = 0
    run: str = ""
    shared: str = ""
    columns: Mapping[str, Any] = field(default_factory=dict)
    skipped: Sequence[Skipped] = ()
    feedback: Sequence[SourceFeedback] = ()


@dataclass(frozen=True, slots=True)
class SourceFeedback:
    """Feedback on a message, valid except for its user.

    Attributes:
        id: Its primary key in the source, if known.
        user: The user's key in the source; empty if it was no user.
        source: ``"user"``, ``"reviewer"``, or the name of a program.
        value: 1, 0 or -1.
        comment: The comment; empty if there is none.
        created_at: Time of creation, if known.
        updated_at: Time of the last change, if known.
    """

    id: UUID | None
    user: str
    source: str
    value: int
    comment: str = ""
    created_at: datetime | None = None
    updated_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Skipped:
    """An item of a source that was not imported.

    Attributes:
        place: Its location, without content: the name of a file, a table and a key.
        reason: The reason, without content.
        error: Whether it needs attention; False for items that are not imported by design.
    """

    place: str
    reason: str
    error: bool = True


@dataclass(frozen=True, slots=True)
class SourceBranch:
    """A side branch of a conversation.

    Attributes:
        number: Its number, from 1 on.
        name: Its name.
        created_at: Time of creation, if known.
        kind: How it was created, as in ``Branch.Kind``, if known.
        parent: Number of the branch that it was created from, if known.
        start: Number of messages that it shared with that branch, if known.
    """

    number: int
    name: str
    created_at: datetime | None = None
    kind: str = ""
    parent: int | None = None
    start: int | None = None


@dataclass(frozen=True, slots=True)
class MessagePlace:
    """Where a message is in a source; ``redacted`` tells whether it was redacted there."""

    agent_id: str
    branch: int
    position: int
    redacted: bool


@dataclass(frozen=True, slots=True)
class SourceNote:
    """A note on a session, or on the message at a place of it."""

    id: UUID | None
    place: MessagePlace | None
    author: str
    text: str
    created_at: datetime | None = None
    updated_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class SourceLabel:
    """A label of a session, or of the message at a place of it."""

    id: UUID | None
    place: MessagePlace | None
    name: str
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class SourceReview:
    """What staff kept about a session; ``state`` is None if it was not under review."""

    notes: Sequence[SourceNote] = ()
    labels: Sequence[SourceLabel] = ()
    state: str | None = None
    assignee: str = ""
    updated_by: str = ""
    updated_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class SourceAgent:
    """An agent of a session.

    Attributes:
        agent_id: The agent's id in the session.
        dialect: The message format, a name of :mod:`django_agent_sessions.content.dialects`.
        messages: The messages in order, read lazily, so that a long conversation need not fit in
            memory. A message that cannot be read is a :class:`Skipped`.
        data: The agent's state.
        created_at: Time of creation, if known.
        updated_at: Time of the last change, if known.
        columns: Further values of this package's own format: the primary key.
        branches: The agent's side branches.
        costs: The usage of the agent's turns.
    """

    agent_id: str
    dialect: str
    messages: Iterable[SourceMessage | Skipped]
    data: AgentState = field(default_factory=AgentState)
    created_at: datetime | None = None
    updated_at: datetime | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)
    branches: Sequence[SourceBranch] = ()
    costs: Sequence[TurnCost] = ()


@dataclass(frozen=True, slots=True)
class SourceMultiAgent:
    """An orchestrator of a session.

    Attributes:
        multi_agent_id: The orchestrator's id in the session.
        kind: ``"graph"``, ``"swarm"``, or another type of the SDK.
        state: JSON values.
        created_at: Time of creation, if known.
        updated_at: Time of the last change, if known.
        columns: Further values of this package's own format: the primary key.
        has_transcript: Whether what its nodes said is among the messages of the source; if not, it
            is read from the state.
    """

    multi_agent_id: str
    kind: str
    state: Any
    created_at: datetime | None = None
    updated_at: datetime | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)
    has_transcript: bool = False


@dataclass(frozen=True, slots=True)
class SourceSession:
    """A session in a source.

    Attributes:
        session_id: The session's id.
        agents: The session's agents.
        multi_agents: The session's orchestrators.
        created_at: Time of creation, if known.
        updated_at: Time of the last change, if known.
        columns: Further values of this package's own format: title, metadata, external_id.
        skipped: Parts of the session that could not be read.
        review: What staff kept about it.
    """

    session_id: str
    agents: Sequence[SourceAgent]
    multi_agents: Sequence[SourceMultiAgent] = ()
    created_at: datetime | None = None
    updated_at: datetime | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)
    skipped: Sequence[Skipped] = ()
    review: SourceReview | None = None


class SourceError(AgentSessionsError):
    """A source cannot be read at the moment.

    The part of a session that was imported is kept, and the next import continues after it.
    """


class Source(Protocol):
    """A source of sessions."""

    kind: str
    """The kind of the source, stored in the session's origin: ``"openai-sqlite"``."""

    def sessions(self) -> Iterator[SourceSession | Skipped]:
        """Iterate over the sessions in a stable order.

        Yields:
            The sessions, and the items that could not be read.
        """
        ...

    def count(self) -> int | None:
        """Return the number of sessions for a progress bar, or None if counting is slow."""
        ...
