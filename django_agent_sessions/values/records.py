"""The values that adapters and the store exchange: frozen, without models and SDK types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

from django_agent_sessions.exceptions import UnreadableStateError
from django_agent_sessions.values.ids import SessionKey, new_id
from django_agent_sessions.values.token_counts import TokenCounts


@dataclass(frozen=True, slots=True)
class Usage:
    """Number of messages, tokens and errors.

    Attributes:
        messages: Number of messages.
        input_tokens: Tokens of the models' input, as reported by the SDK; None if it reported
            none.
        output_tokens: Tokens of the models' output, or None.
        cost: The cost by ``PRICES``, in billionths of its currency; None if it is unknown.
        errors: Number of messages that report an error.
        cache_read_tokens: Those of the input tokens that were read from the provider's prompt
            cache, or None.
        cache_write_tokens: Those of the input tokens that were written to it, or None.
    """

    messages: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: int | None = None
    errors: int = 0
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None

    @classmethod
    def of_tokens(cls, counts: Iterable[int | None]) -> Usage:
        """Return the usage of :class:`~.token_counts.TokenCounts`, without messages."""
        read, written, *cached = counts
        return cls(0, read, written, None, 0, *cached)

    @property
    def tokens(self) -> TokenCounts:
        """The token counts."""
        cached = self.cache_read_tokens, self.cache_write_tokens
        return TokenCounts(self.input_tokens, self.output_tokens, *cached)

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.messages + other.messages,
            add_known(self.input_tokens, other.input_tokens),
            add_known(self.output_tokens, other.output_tokens),
            add_known(self.cost, other.cost),
            self.errors + other.errors,
            add_known(self.cache_read_tokens, other.cache_read_tokens),
            add_known(self.cache_write_tokens, other.cache_write_tokens),
        )


def add_known(*counts: int | None) -> int | None:
    """Add the counts that are known; None if none is."""
    total = None
    for count in counts:
        if count is not None:
            total = count if total is None else total + count
    return total


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """A session as it was when it was read.

    Attributes:
        id: Primary key, a UUIDv7.
        session_id: The id that the caller chose, unique in its namespace and scope.
        namespace: The namespace of the id; ``""`` by default.
        scope: The scope of the id in its namespace; ``""`` by default.
        session_type: ``"AGENT"``.
        owner_id: Primary key of the user who owns it; None if it has no owner.
        external_id: The id that a client chose, unique among the owner's sessions of one
            namespace and scope.
        title: Title for people.
        metadata: JSON for programs; sessions can be filtered by it.
        redaction_epoch: Increases with every redaction in the session and every rewind of an agent.
        usage: Messages and tokens of all its agents, updated once per turn.
        legal_hold: Whether it is under legal hold and cannot be deleted.
        created_at: When it was created.
        updated_at: When it was last modified.
        last_activity_at: When the last turn ended, or a message was appended: an append moves it at
            most once in 5 seconds.
        archived_at: When it was archived; None if it was not.
        expires_at: When it may be deleted; None if never.
        forked_from: Primary key of the first session of its line of forks; None if it is no fork.
    """

    id: UUID
    session_id: str
    namespace: str
    scope: str
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
    forked_from: UUID | None = None

    @property
    def key(self) -> SessionKey:
        """The namespace, scope and session id, which together identify the session."""
        return SessionKey(self.namespace, self.scope, self.session_id)


@dataclass(frozen=True, slots=True)
class AgentState:
    """An agent's state besides its messages. Each value is exact JSON or bytes.

    Attributes:
        state: The state of the user's application.
        conversation_manager_state: The state of the conversation manager.
        internal_state: The state of the SDK.
        window: The messages that the agent had in memory: ``{"kept": [reference, …], "tail": n}``
            are these, in this order, and all messages from position ``n`` on. A reference is
            ``[first, stop]``, the messages from one position up to another, or ``{"message": …}``,
            a message in another form than in the conversation (a summary, a shortened tool result),
            with the ``"position"`` of its original, if there is one. None: all messages.
    """

    state: Any = field(default_factory=dict)
    conversation_manager_state: Any = field(default_factory=dict)
    internal_state: Any = field(default_factory=dict)
    window: Any = None


class UnreadableState(AgentState):
    """A state that is corrupt in the database: reading a value raises ``UnreadableStateError``."""

    __slots__ = ("_problem",)

    def __init__(self, problem: str) -> None:
        # The values stay unset, so that Python asks `__getattr__` for them.
        object.__setattr__(self, "_problem", problem)

    @property
    def error(self) -> UnreadableStateError:
        """The error, which names the row and what to do."""
        return UnreadableStateError(self._problem)

    def __getattr__(self, name: str) -> Any:
        raise self.error

    def __repr__(self) -> str:
        return "<UnreadableState>"


@dataclass(frozen=True, slots=True)
class AgentRecord:
    """An agent of a session as it was when it was read.

    Attributes:
        id: Primary key, a UUIDv7.
        session: Primary key of its session.
        agent_id: The id that the caller chose, unique in its session.
        dialect: The message format of its payloads, a name of
            :mod:`django_agent_sessions.content.dialects`.
        data: Its state.
        created_at: When it was created.
        updated_at: When its state was last modified.
        branch: The number of the branch that this record refers to; 0 is the main branch.
    """

    id: UUID
    session: UUID
    agent_id: str
    dialect: str
    data: AgentState
    created_at: datetime
    updated_at: datetime
    branch: int = 0

    @classmethod
    def require(cls, value: Any) -> None:
        """Raise TypeError if the value is something else, such as a session."""
        if not isinstance(value, cls):
            raise TypeError(
                f"an agent is expected, not {type(value).__name__}: use "
                "store.agents.open(session), which returns the session's agent"
            )

    def on_branch(self, number: int) -> AgentRecord:
        """Return a record of this agent that refers to another branch of its conversation."""
        return replace(self, branch=number)


@dataclass(frozen=True, slots=True)
class BranchRecord:
    """A branch of an agent's conversation as it was when it was read.

    Attributes:
        agent: Primary key of the agent.
        number: Its number; 0 is the main branch.
        name: Its name, unique among the agent's branches; the main branch is ``"main"``.
        kind: How it was created, a value of ``Branch.Kind``; empty for the main branch.
        parent: The number of the branch that it was created from.
        start: Number of messages that it shares with its parent.
        length: Number of its messages, including the shared ones.
        created_at: When it was created; None for the main branch.
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
        snapshot_id: The SDK's id; empty for the latest snapshot, which each save replaces.
        branch: The branch of its messages.
        length: The position after its last message.
        created_at: When it was created.
        updated_at: When it was last modified.
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
    """A message to append, with data besides its payload.

    Attributes:
        payload: Exact JSON; bytes are allowed.
        id: Primary key, which is also the idempotency key.
        created_at: When it was created; None for now.
        updated_at: When it was last modified; None for ``created_at``.
        usage: The tokens of the model's call that wrote it, for formats whose payloads have none.
        model: The name of the model that wrote it; empty if it is unknown.
        external_id: A client's or framework's key of it, unique on each branch of the agent.
        author: Primary key of the user who wrote it, as text, if that is not the session's owner.
    """

    payload: Any
    id: UUID = field(default_factory=new_id)
    created_at: datetime | None = None
    updated_at: datetime | None = None
    usage: Usage | None = None
    model: str = ""
    external_id: str | None = None
    author: str = ""


class MessageRecord(NamedTuple):
    """A message as it was when it was read or written.

    Attributes:
        id: Primary key, a UUIDv7.
        message_id: Its position in the agent's conversation, consecutive from 0.
        message: The payload of the SDK, or its redacted version.
        redacted_at: When it was redacted, if it was.
        role: The role of its author, independent of the SDK.
        run_id: The invocation of the agent that wrote it, if known.
        revision: Number of changes of the row.
        created_at: When the message was created.
        updated_at: When the row was last modified.
        usage: What it adds to the session's counters.
        external_id: A client's or framework's key of it, if it has one.
        author: Primary key of the user who wrote it, as text, if that is not the session's owner.
    """

    id: UUID
    message_id: int
    message: Any
    redacted_at: datetime | None
    role: str
    run_id: UUID | None
    revision: int
    created_at: datetime
    updated_at: datetime
    usage: Usage = Usage()
    external_id: str | None = None
    author: str = ""

    @property
    def content(self) -> Any:
        """The payload."""
        return self.message

    @property
    def redact_message(self) -> Any:
        """The payload, if it was redacted; otherwise None."""
        return None if self.redacted_at is None else self.message


@dataclass(frozen=True, slots=True)
class Append:
    """Messages to append to a conversation: all of them or none.

    Attributes:
        agent: The agent; its ``branch`` selects the branch.
        messages: The payloads (exact JSON, bytes allowed), or ``NewMessage`` with them, in order.
        run_id: Id of the invocation that wrote them; by default that of the
            :func:`~django_agent_sessions.values.run_context.run_context`, if any.
        expected: Write only if this is the next position, which the first message gets.
        epoch: Write only if the session's redaction epoch still has this value.
        count: Whether to update the session's counters and last activity.
        again: Whether an earlier attempt with an unknown outcome may have written any of the
            messages already; they must then be the same ``NewMessage``.
    """

    agent: AgentRecord
    messages: Sequence[Any]
    run_id: UUID | None = None
    expected: int | None = None
    epoch: int | None = None
    count: bool = True
    again: bool = False

    def __post_init__(self) -> None:
        AgentRecord.require(self.agent)


Written: TypeAlias = list[MessageRecord]
"""The messages of an append, with their positions."""


class PositionedPayload(NamedTuple):
    """A payload and its position.

    Attributes:
        position: The ``message_id``.
        payload: The payload; its redacted version, if there is one.
        redacted: Whether it was redacted.
    """

    position: int
    payload: Any
    redacted: bool


class RestoredMessage(NamedTuple):
    """A message of an agent that is restored.

    Attributes:
        position: The ``message_id``; None if only the agent has the message, such as a summary.
        payload: The payload; its redacted version, if there is one. A message that the agent had in
            another form is restored in that form.
        run_id: The invocation that wrote it, if known; for a message in another form, that of the
            message before it.
    """

    position: int | None
    payload: Any
    run_id: UUID | None


@dataclass(frozen=True, slots=True)
class TurnCost:
    """The cost of a turn, as counted by an SDK.

    Attributes:
        requests: Number of requests to a model.
        input_tokens: Tokens of the models' input.
        output_tokens: Tokens of the models' output.
        total_tokens: The total, as computed by the SDK.
        input_tokens_details: Number of tokens by kind; exact JSON.
        output_tokens_details: Number of tokens by kind; exact JSON.
        turn: Number of the turn, if it was read.
        branch: Number of its branch, if it was read.
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
    """The cost of several turns.

    Attributes:
        requests: Number of requests to models.
        input_tokens: Tokens of the models' input.
        output_tokens: Tokens of the models' output.
        total_tokens: The total.
        turns: Number of turns.
    """

    requests: int
    input_tokens: int
    output_tokens: int
    total_tokens: int
    turns: int


@dataclass(frozen=True, slots=True)
class TurnItem:
    """A message and the turn that it belongs to.

    Attributes:
        turn: Number of the turn; 0 before the first one.
        position: The ``message_id``.
        role: The role of its author, independent of the SDK.
        payload: The payload; its redacted version, if there is one. ``CorruptPayload`` if it cannot
            be parsed.
        created_at: When the message was created.
    """

    turn: int
    position: int
    role: str
    payload: Any
    created_at: datetime


@dataclass(frozen=True, slots=True)
class BranchSize:
    """The size of a branch.

    Attributes:
        messages: Number of messages.
        turns: Number of the user's messages.
        first_at: When the first message was created.
    """

    messages: int
    turns: int
    first_at: datetime


@dataclass(frozen=True, slots=True)
class FeedbackRecord:
    """Feedback on a message as it was when it was read.

    Attributes:
        id: Primary key, a UUIDv7.
        session: Primary key of the session.
        message: Primary key of the message.
        user: Primary key of the user who gave it, as text; empty if it was not a user.
        source: Where it comes from: ``"user"``, ``"reviewer"``, or the name of a program.
        value: 1 for good, -1 for bad, 0 for a comment without a rating.
        comment: The comment; empty if there is none.
        created_at: When it was given.
        updated_at: When it was last changed.
    """

    id: UUID
    session: UUID
    message: UUID
    user: str
    source: str
    value: int
    comment: str
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class MultiAgentRecord:
    """An orchestrator's state as it was when it was read.

    Attributes:
        id: Primary key, a UUIDv7.
        session: Primary key of its session.
        multi_agent_id: The id that the caller chose, unique in its session.
        kind: ``"graph"``, ``"swarm"``, or another kind of the SDK.
        state: Exact JSON.
        created_at: When it was created.
        updated_at: When it was last modified.
    """

    id: UUID
    session: UUID
    multi_agent_id: str
    kind: str
    state: Any
    created_at: datetime
    updated_at: datetime


class UnreadableMultiAgentRecord(MultiAgentRecord):
    """An orchestrator whose state is corrupt: reading ``state`` raises ``UnreadableStateError``."""

    __slots__ = ("_problem",)

    def __init__(self, problem: str, **columns: Any) -> None:
        # As `UnreadableState`: only `state` stays unset.
        for name, value in {"_problem": problem, **columns}.items():
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        raise UnreadableStateError(self._problem)

    def __repr__(self) -> str:
        return f"<UnreadableMultiAgentRecord {self.id}>"
