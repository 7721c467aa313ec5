"""Scopes and results of redactions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias
from uuid import UUID

from django.utils.crypto import salted_hmac

from django_agent_sessions.content.paths import Path
from django_agent_sessions.exceptions import RedactionScopeError
from django_agent_sessions.models import SessionMessage
from django_agent_sessions.values.records import MessageRecord

# --- what to redact --------------------------------------------------------------------------

MessageName: TypeAlias = MessageRecord | SessionMessage | UUID | str
"""A message's record, its model instance, or its primary key, which may be a UUID or its text."""


@dataclass(frozen=True, slots=True)
class WholeMessage:
    """The whole content of a message.

    Attributes:
        message: The message: its record, its model instance, or its primary key.
    """

    message: MessageName


@dataclass(frozen=True, slots=True)
class Block:
    """One block or part of a message: a tool's result, an image.

    Attributes:
        message: The message.
        path: Path of the block in the payload.
    """

    message: MessageName
    path: Path


@dataclass(frozen=True, slots=True)
class Span:
    """A part of one text of a message.

    Attributes:
        message: The message.
        path: Path of the text in the payload.
        start: Index of the first character.
        end: Index after the last character.
    """

    message: MessageName
    path: Path
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Find:
    """A string in any case and spelling, or a regular expression.

    Attributes:
        text: The string or the regular expression.
        pattern: Whether ``text`` is a regular expression.
        message: The message to search; None searches the whole session.
    """

    text: str = field(repr=False)
    pattern: bool = False
    message: MessageName | None = None


@dataclass(frozen=True, slots=True)
class Detect:
    """The matches of detectors.

    Attributes:
        names: Names of the detectors, or one name; empty for all.
        message: The message to search; None searches the whole session.
    """

    names: Sequence[str] | str = ()
    message: MessageName | None = None

    def __post_init__(self) -> None:
        if isinstance(self.names, str):
            object.__setattr__(self, "names", (self.names,))


Scope: TypeAlias = WholeMessage | Block | Span | Find | Detect
"""What to redact."""


def message_key(message: MessageName | None) -> UUID:
    """Return the primary key of a message that a scope names."""
    if isinstance(message, MessageRecord | SessionMessage):
        return message.id
    try:
        return message if isinstance(message, UUID) else UUID(message or "")
    except (AttributeError, TypeError, ValueError):
        raise RedactionScopeError(
            "a scope names no message: pass its record, its model instance, or its primary key"
        ) from None


# --- results ---------------------------------------------------------------------------------


_STRUCTURE = frozenset(
    {
        "content", "text", "toolUse", "toolResult", "input", "output", "arguments", "json",
        "message", "messages", "result", "node_results", "summary", "summary_message",
        "reasoningContent", "reasoningText", "image", "document", "source", "bytes", "tool_calls",
        "function", "current_task", "context", "image_url", "file_data", "action",
        "data", "state", "stash", "app_data", "system_prompt", "conversation_manager_state",
    }
)  # fmt: skip


def _path_step(key: str) -> str:
    # The keys of an application's data are content, too.
    return f".{key}" if key in _STRUCTURE else ".…"


@dataclass(frozen=True, slots=True)
class Place:
    """A location in a session, without its content.

    Attributes:
        kind: ``"message"``, ``"agent"``, ``"orchestrator"``, ``"session"``, ``"snapshot"``,
            ``"object"`` (stored by an SDK's storage), ``"branch"``, ``"feedback"``, ``"note"`` or
            ``"label"``.
        key: Primary key of the row.
        name: A readable name of the row: the position of a message, the id of an agent, the key
            of an object.
        column: The column.
        path: Path in the column's payload.
    """

    kind: str
    key: UUID
    name: str
    column: str
    path: Path = field(default=(), repr=False)

    def __str__(self) -> str:
        steps = "".join(
            f"[{step}]" if isinstance(step, int) else _path_step(step) for step in self.path
        )
        return f"{self.kind} {self.name}, {self.column}{steps}".replace(" ,", ",")


@dataclass(frozen=True, slots=True)
class Hit:
    """A match that is redacted.

    Attributes:
        place: Its location.
        kind: The kind in its mask, such as ``"EMAIL"``; empty if the caller named the text.
        before: The match with some text around it. For scopes with a position (span, block, whole
            message) only dry runs fill it, and long texts are truncated.
        after: The same text with the mask.
    """

    place: Place
    kind: str
    before: str = field(repr=False)
    after: str = field(repr=False)


class MatchGroup(NamedTuple):
    """The matches of one kind in one column.

    Attributes:
        kind: The kind of the row, as in :class:`Place`.
        key: Primary key of the row.
        column: The column.
        mask: The kind of the matches, as in :class:`Hit`.
    """

    kind: str
    key: UUID
    column: str
    mask: str


@dataclass(frozen=True, slots=True)
class Redaction:
    """The result of a redaction or a dry run.

    Attributes:
        hits: The first 1,000 matches.
        kept: Matches in ids and names, which are not changed because programs use them.
        messages: Number of changed messages.
        states: Number of other changed rows.
        epoch: The session's redaction epoch afterwards.
        dry_run: Whether this was a dry run.
        session: Primary key of the session.
        forks: The results for the forks of the session, if requested.
        unread: Files that were not searched, or not completely: large binaries that could not be
            read (if the storage was temporarily unavailable, redact again later), and compressed
            files that are encrypted, damaged, too large, or in an unknown format.
        unreached: Primary keys of forks that the caller may not redact, and that were not searched.
        counts: The number of all matches, in groups.
        hidden: What the user may not see: ``"state"``, ``"note"`` (also labels) and ``"comment"``
            of others were searched for the texts only that were found elsewhere in the session; no
            match in them is counted or listed.
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
    unreached: list[UUID] = field(default_factory=list)
    counts: Mapping[MatchGroup, int] = field(default_factory=dict, repr=False)
    hidden: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        """The number of all matches in this session."""
        return sum(self.counts.values())

    @property
    def sessions(self) -> list[Redaction]:
        """The results for the session and for each fork with matches."""
        found = (
            fork for fork in self.forks if fork.hits or fork.kept or fork.states or fork.unread
        )
        return [self, *found]

    @property
    def digest(self) -> str:
        """A digest of the places of all matches, without content; see :func:`redact`."""
        keys = sorted(
            (group.kind, str(group.key), group.column, group.mask, count)
            for each in (self, *self.forks)
            for group, count in each.counts.items()
        )
        text = json.dumps(keys)
        return salted_hmac("agent_sessions.redact", text, algorithm="sha256").hexdigest()
