"""What an importer reads: sessions of any origin, as plain values. No models, no SDK."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from django_agent_sessions.exceptions import AgentSessionsError
from django_agent_sessions.records import AgentState, TurnCost


@dataclass(frozen=True, slots=True)
class SourceMessage:
    """A message as a source has it.

    Attributes:
        payload: The SDK's payload: exact JSON, bytes allowed.
        created_at: When it was said, if the source tells.
        updated_at: When it last changed, if the source tells.
        redact_message: Its redacted version, if it was redacted.
        branch: The branch of the conversation; 0 is the main one.
        run: Marks the messages of one invocation, if the source tells: any text.
        shared: Marks one message that is on several branches, if the source tells: any text.
        columns: What our own format knows beside that: primary key, position, figures and so on.
        skipped: What of it could not be read, and is not in it.
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


@dataclass(frozen=True, slots=True)
class Skipped:
    """What a source could not read, and why.

    Attributes:
        place: Where it is: a file's name, a table and key. Ids only.
        reason: Why it was left out, without content.
        error: Whether somebody should look; False for what was never asked for.
    """

    place: str
    reason: str
    error: bool = True


@dataclass(frozen=True, slots=True)
class SourceBranch:
    """A side branch of a conversation."""

    number: int
    name: str
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class SourceAgent:
    """An agent of a session.

    Attributes:
        agent_id: Its name in the session.
        dialect: The message format, a name of :mod:`django_agent_sessions.transcripts`.
        messages: In order; read while they are imported, so that a long conversation is never in
            memory as a whole. What cannot be read stands there as :class:`Skipped`.
        data: Its state.
        created_at: When it was made, if the source tells.
        updated_at: When it last changed, if the source tells.
        columns: What our own format knows beside that: the primary key.
        branches: Its side branches.
        costs: What its turns have cost.
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
        multi_agent_id: Its name in the session.
        kind: ``"graph"``, ``"swarm"``, or whatever the SDK calls it.
        state: Exact JSON.
        created_at: When it was made, if the source tells.
        updated_at: When it last changed, if the source tells.
        columns: What our own format knows beside that: the primary key.
    """

    multi_agent_id: str
    kind: str
    state: Any
    created_at: datetime | None = None
    updated_at: datetime | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SourceSession:
    """A session as a source has it.

    Attributes:
        session_id: Its name.
        agents: Its agents.
        multi_agents: Its orchestrators.
        created_at: When it was made, if the source tells.
        updated_at: When it last changed, if the source tells.
        columns: What our own format knows beside that: title, metadata, external_id and so on.
        skipped: What of it could not be read.
    """

    session_id: str
    agents: Sequence[SourceAgent]
    multi_agents: Sequence[SourceMultiAgent] = ()
    created_at: datetime | None = None
    updated_at: datetime | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)
    skipped: Sequence[Skipped] = ()


class SourceError(AgentSessionsError):
    """A source cannot be read now, though it may be later.

    What was read of a session until then stays, and the next import goes on behind it.
    """


class Source(Protocol):
    """Where sessions come from."""

    kind: str
    """What it is, for the record of where a session came from: ``"openai-sqlite"``."""

    def sessions(self) -> Iterator[SourceSession | Skipped]:
        """Walks through the sessions, in an order that is the same each time.

        Yields:
            The sessions, one at a time, and what could not be read.
        """
        ...

    def count(self) -> int | None:
        """Counts the sessions, for a progress bar; None if that would take long."""
        ...
