"""What to redact, and what a redaction found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias
from uuid import UUID

from django_agent_sessions.references import Path

# --- what to redact --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WholeMessage:
    """All that a message says.

    Attributes:
        message: Primary key of the message.
    """

    message: UUID


@dataclass(frozen=True, slots=True)
class Block:
    """One block or part of a message: a tool's result, an image.

    Attributes:
        message: Primary key of the message.
        path: Where the block is in the payload.
    """

    message: UUID
    path: Path


@dataclass(frozen=True, slots=True)
class Span:
    """A part of one text of a message.

    Attributes:
        message: Primary key of the message.
        path: Where the text is in the payload.
        start: Index of the first character.
        end: Index behind the last one.
    """

    message: UUID
    path: Path
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Find:
    """A string, in any case and spelling, or a pattern.

    Attributes:
        text: What to look for.
        pattern: Whether it is a regular expression.
        message: Look only in the message of this primary key; None looks in the whole session.
    """

    text: str = field(repr=False)
    pattern: bool = False
    message: UUID | None = None


@dataclass(frozen=True, slots=True)
class Detect:
    """What detectors find.

    Attributes:
        names: Names of detectors; empty for all.
        message: As for :class:`Find`.
    """

    names: Sequence[str] = ()
    message: UUID | None = None


Scope: TypeAlias = WholeMessage | Block | Span | Find | Detect

# --- what was found --------------------------------------------------------------------------


_STRUCTURE = frozenset(
    {
        "content", "text", "toolUse", "toolResult", "input", "output", "arguments", "json",
        "message", "messages", "result", "node_results", "summary", "summary_message",
        "reasoningContent", "reasoningText", "image", "document", "source", "bytes", "tool_calls",
        "function", "current_task", "context", "image_url", "file_data", "action",
        "data", "state", "stash", "app_data", "system_prompt", "conversation_manager_state",
    }
)  # fmt: skip


def _said(key: str) -> str:
    # The keys of somebody's own data are content too.
    return f".{key}" if key in _STRUCTURE else ".…"


@dataclass(frozen=True, slots=True)
class Place:
    """Where something is, without what it is.

    Attributes:
        kind: ``"message"``, ``"agent"``, ``"orchestrator"``, ``"session"``, ``"snapshot"``,
            ``"object"`` (stored by an SDK's storage) or ``"branch"``.
        key: Primary key of that row.
        name: What people call the row: the position of a message, the id of an agent, the key
            of an object.
        column: The column.
        path: Where in the column's payload.
    """

    kind: str
    key: UUID
    name: str
    column: str
    path: Path = field(default=(), repr=False)

    def __str__(self) -> str:
        steps = "".join(f"[{step}]" if isinstance(step, int) else _said(step) for step in self.path)
        return f"{self.kind} {self.name}, {self.column}{steps}".replace(" ,", ",")


@dataclass(frozen=True, slots=True)
class Hit:
    """Something that is redacted.

    Attributes:
        place: Where it is.
        kind: What it is, as its mask says: ``"EMAIL"``; empty for what was named by somebody.
        before: It, with a little of what stands around it. What a scope takes from a message by
            its place, a span, a block or all of it, is told by dry runs only, and not whole if it
            is very long.
        after: The same with its mask.
    """

    place: Place
    kind: str
    before: str = field(repr=False)
    after: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Redaction:
    """What was redacted, or would be.

    Attributes:
        hits: Everything that was found.
        kept: Where the same stands in an id, which cannot be changed while programs use it.
        messages: How many messages changed.
        states: How many other rows changed.
        epoch: The session's redaction epoch after it.
        dry_run: Whether nothing was written.
        session: Primary key of the session.
        forks: The same for each fork of the session, if these were asked for.
        unread: Messages of which a large binary was not there to be looked into. If its storage was
            only away, what is looked for may still be in it: redact again when it is back.
    """

    hits: list[Hit]
    kept: list[Place]
    messages: int
    states: int
    epoch: int
    dry_run: bool
    session: UUID | None = None
    forks: list[Redaction] = field(default_factory=list)
    unread: list[Place] = field(default_factory=list)

    @property
    def sessions(self) -> list[Redaction]:
        """What was found in the session, and in each fork in which something was."""
        found = (
            fork for fork in self.forks if fork.hits or fork.kept or fork.states or fork.unread
        )
        return [self, *found]
