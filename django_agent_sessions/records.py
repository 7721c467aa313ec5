"""What passes between the adapters and the store: plain frozen values, no models, no SDK types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from .ids import new_id


@dataclass(frozen=True, slots=True)
class Usage:
    """How much was said.

    Attributes:
        messages: How many messages there are.
        input_tokens: Tokens the models were given, as the SDK reported them.
        output_tokens: Tokens the models made.
    """

    messages: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.messages + other.messages,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
        )


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """A session as it was when it was read.

    Attributes:
        id: Primary key, a UUIDv7.
        session_id: The name the caller gave it, unique in its namespace.
        namespace: The space of names; ``""`` by default.
        session_type: ``"AGENT"``.
        owner_id: Primary key of the owning user; None if nobody owns it.
        external_id: The id a client chose, unique among one owner's sessions.
        title: For people.
        metadata: For programs: JSON that can be filtered on.
        redaction_epoch: Moves when something in it is redacted, or an agent goes back in time.
        usage: Messages and tokens of all its agents, moved once per turn.
        legal_hold: Whether it must not be deleted.
        created_at: When it was made.
        updated_at: When it last changed.
        last_activity_at: When the last turn ended.
        archived_at: When it was put away, if it was.
        expires_at: When it may be deleted, if ever.
    """

    id: UUID
    session_id: str
    namespace: str
    session_type: str
    owner_id: Any
    external_id: str | None
    title: str
    metadata: Mapping[str, Any]
    redaction_epoch: int
    usage: Usage
    legal_hold: bool
    created_at: datetime
    updated_at: datetime
    last_activity_at: datetime
    archived_at: datetime | None
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class AgentState:
    """What an SDK keeps about an agent beside its messages. Each value is exact JSON or bytes.

    Attributes:
        state: The user's own state.
        conversation_manager_state: The conversation manager's.
        internal_state: The SDK's.
        window: Which messages the agent had in memory: ``{"kept": [message_id, …], "tail": n}``
            are these and all from ``n`` on. None: all of them.
    """

    state: Any = field(default_factory=dict)
    conversation_manager_state: Any = field(default_factory=dict)
    internal_state: Any = field(default_factory=dict)
    window: Any = None


@dataclass(frozen=True, slots=True)
class AgentRecord:
    """An agent of a session as it was when it was read.

    Attributes:
        id: Primary key, a UUIDv7.
        session: Primary key of its session.
        agent_id: The name the caller gave it, unique in its session.
        dialect: The message format of its payloads, a name of
            :mod:`django_agent_sessions.transcripts`.
        data: Its state.
        created_at: When it was made.
        updated_at: When its state last changed.
        branch: The branch of its conversation that is meant; 0 is the main one.
    """

    id: UUID
    session: UUID
    agent_id: str
    dialect: str
    data: AgentState
    created_at: datetime
    updated_at: datetime
    branch: int = 0

    def on_branch(self, number: int) -> AgentRecord:
        """The agent with another branch of its conversation, for all that the store does."""
        return replace(self, branch=number)


@dataclass(frozen=True, slots=True)
class BranchRecord:
    """A branch of an agent's conversation as it was when it was read.

    Attributes:
        agent: Primary key of the agent.
        number: Its number; 0 is the main branch.
        name: Its name, unique among the agent's branches; the main one is ``"main"``.
        kind: How it came to be, a value of ``Branch.Kind``; empty for the main one.
        parent: The number of the branch it left.
        start: How many messages both had in common then.
        length: How many messages it has now, those in common included.
        created_at: When it was made; None for the main one.
    """

    agent: UUID
    number: int
    name: str
    kind: str
    parent: int
    start: int
    length: int
    created_at: datetime | None


@dataclass(frozen=True, slots=True)
class SnapshotRecord:
    """A snapshot of an agent as it was when it was read, without its content.

    Attributes:
        id: Primary key, a UUIDv7.
        agent: Primary key of the agent.
        snapshot_id: What the SDK calls it; empty for the latest one, which each save replaces.
        branch: The branch that its messages are of.
        length: The position behind its last message.
        created_at: When it was made.
        updated_at: When it last changed.
    """

    id: UUID
    agent: UUID
    snapshot_id: str
    branch: int
    length: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message on its way into the store, where more than its payload is known.

    Attributes:
        payload: Exact JSON, bytes allowed.
        id: Primary key. The same one again is the same message.
        created_at: When it was said; now, if not given.
        updated_at: When it last changed; ``created_at``, if not given.
    """

    payload: Any
    id: UUID = field(default_factory=new_id)
    created_at: datetime | None = None
    updated_at: datetime | None = None


class MessageRecord(NamedTuple):
    """A message as it was when it was read or written.

    Attributes:
        id: Primary key, a UUIDv7.
        message_id: Its position in the agent's conversation, dense from 0.
        message: The payload as the SDK gave it, or its redacted version.
        redact_message: The redacted version, if it was redacted.
        role: Who speaks, in neutral words.
        run_id: The invocation of the agent that wrote it, if known.
        revision: How often the row changed.
        created_at: When it was said.
        updated_at: When the row last changed.
    """

    id: UUID
    message_id: int
    message: Any
    redact_message: Any
    role: str
    run_id: UUID | None
    revision: int
    created_at: datetime
    updated_at: datetime

    @property
    def content(self) -> Any:
        """The payload to go on with: the redacted version where there is one."""
        return self.message if self.redact_message is None else self.redact_message


class PlacedPayload(NamedTuple):
    """What was said, and where it stands.

    Attributes:
        position: Its ``message_id``.
        payload: The payload, redacted where it was redacted.
        redacted: Whether it was.
    """

    position: int
    payload: Any
    redacted: bool


@dataclass(frozen=True, slots=True)
class TurnCost:
    """What a turn has cost, as an SDK counted it.

    Attributes:
        requests: How often a model was asked.
        input_tokens: Tokens the models were given.
        output_tokens: Tokens the models made.
        total_tokens: Both, as the SDK adds them.
        input_tokens_details: What kinds of tokens they were; exact JSON.
        output_tokens_details: Likewise.
        turn: Which turn it was, where it was read.
        branch: The branch that it was on, where it was read.
    """

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    input_tokens_details: Any = None
    output_tokens_details: Any = None
    turn: int = 0
    branch: int = 0


@dataclass(frozen=True, slots=True)
class TurnCosts:
    """What several turns have cost together.

    Attributes:
        requests: How often models were asked.
        input_tokens: Tokens they were given.
        output_tokens: Tokens they made.
        total_tokens: Both.
        turns: How many turns that is.
    """

    requests: int
    input_tokens: int
    output_tokens: int
    total_tokens: int
    turns: int


@dataclass(frozen=True, slots=True)
class TurnItem:
    """A message, and which turn it belongs to.

    Attributes:
        turn: The turn; 0 is before the first.
        position: Its ``message_id``.
        role: Who speaks, in neutral words.
        payload: The payload, redacted where it was redacted; ``CorruptPayload`` if nobody can
            read it.
        created_at: When it was said.
    """

    turn: int
    position: int
    role: str
    payload: Any
    created_at: datetime


@dataclass(frozen=True, slots=True)
class BranchSize:
    """How much is on a branch.

    Attributes:
        messages: How many messages.
        turns: How many of them are a user's.
        first_at: When the first was said.
    """

    messages: int
    turns: int
    first_at: datetime


@dataclass(frozen=True, slots=True)
class MultiAgentRecord:
    """An orchestrator's state as it was when it was read.

    Attributes:
        id: Primary key, a UUIDv7.
        session: Primary key of its session.
        multi_agent_id: The name the caller gave it, unique in its session.
        kind: ``"graph"``, ``"swarm"``, or whatever the SDK calls it.
        state: Exact JSON.
        created_at: When it was made.
        updated_at: When it last changed.
    """

    id: UUID
    session: UUID
    multi_agent_id: str
    kind: str
    state: Any
    created_at: datetime
    updated_at: datetime
