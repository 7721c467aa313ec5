"""The base class of message formats."""

from __future__ import annotations

import binascii
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeAlias

from django_agent_sessions.content.blob_refs import BlobRef
from django_agent_sessions.content.paths import Path, value_at

from .media import decode_binary
from .parts import (
    EMPTY_SUMMARY,
    Part,
    PartKind,
    Summary,
    has_error,
    join_searchable_text,
    neutral_role,
    readable_texts,
    unknown_part,
)
from .redaction import Message, Redactor, mask
from .vocabulary import ValueKind, Vocabulary

ValueKindOf: TypeAlias = Callable[[Message, object], ValueKind | None]
"""Returns the kind of a value, given the dict with it."""


@dataclass(frozen=True, slots=True)
class TranscriptBlock:
    """One block of a payload with its path."""

    path: Path
    """The path of the block; empty for the payload itself."""

    parts: tuple[Part, ...]
    """Its parts, usually one; none if it has no content, such as a cache point."""

    inner: tuple[TranscriptBlock, ...] = ()
    """The contents of a tool result, each with its own path."""


class ToolCallIds(NamedTuple):
    """The call ids of a payload's tool calls and tool results."""

    calls: tuple[str, ...] = ()
    results: tuple[str, ...] = ()


NodePath: TypeAlias = tuple[str, ...]
"""A node's name, after those of the graphs around it; empty for the orchestrator's task."""


class Dialect:
    """A message format, read without its framework.

    A payload is untrusted. The methods that other modules call (``blocks``, ``parts``,
    ``summary``, ``question``, ``tool_calls``, ``part_at``, ``binary_at``) never raise. A format
    implements ``read``, and overrides the other methods below it where the default does not fit.
    Those may raise: a payload that cannot be read is shown as JSON.

    A dialect imports neither Django nor the framework, and has no state.
    """

    name: ClassVar[str] = ""
    """The name in ``SessionAgent.dialect``."""

    label: ClassVar[str] = ""
    """The name of the framework, for people."""

    version: ClassVar[int] = 1
    """Increase it when ``summarize`` returns something else for the same payload."""

    is_client_written: ClassVar[bool] = False
    """Whether clients wrote the messages. They may claim any role, and no model reads them."""

    may_answer_twice: ClassVar[bool] = False
    """Whether a tool call may have an interrupted result before the real one."""

    has_run_states: ClassVar[bool] = False
    """Whether an agent's state may contain a run that waits for a person."""

    has_named_branches: ClassVar[bool] = False
    """Whether callers of the framework select a branch by its name."""

    has_encrypted_summaries: ClassVar[bool] = False
    """Whether ``is_encrypted_summary`` may be true."""

    has_windows: ClassVar[bool] = False
    """Whether an agent may hold other messages than those of its conversation."""

    reports_usage: ClassVar[bool] = True
    """Whether payloads have the token counts; otherwise those of a run are stored beside them."""

    is_of_nodes: ClassVar[bool] = False
    """Whether its messages are those of the nodes of orchestrators, whose states it reads."""

    vocabulary: ClassVar[Vocabulary] = Vocabulary()
    """The keys and values that redaction keeps."""

    value_kinds: ClassVar[Mapping[str, ValueKindOf]] = {}
    """For each key of values whose kind depends on more than the key: a function of the dict with
    the key, and of the value. It returns the kind, or None if the key decides."""

    # --- what other modules call ---------------------------------------------------------------

    def blocks(self, payload: object) -> tuple[TranscriptBlock, ...]:
        """Return the blocks of a payload."""
        try:
            return tuple(self.read(payload))
        except Exception:
            return (TranscriptBlock((), (unknown_part(payload),)),)

    def parts(self, payload: object) -> tuple[Part, ...]:
        """Return the neutral parts of a payload.

        An unknown value becomes a part of kind unknown with the raw value, so that nothing is
        lost. Never raises.
        """
        return parts_of(self.blocks(payload))

    def summary(self, payload: object) -> Summary:
        """Return the neutral columns of a payload.

        Args:
            payload: The message or item in the format of its framework.

        Returns:
            The summary; each value is valid for its column. This method never raises, so that any
            message can be stored: an invalid payload has an empty summary.
        """
        try:
            return self.summarize(payload)
        except Exception:
            return EMPTY_SUMMARY

    def question(self, payload: object) -> str | None:
        """Return the text of a message of the user; None for others, such as tools' results."""
        parts = self.parts(payload)
        if self.summary(payload).role != "user" or any(
            part.kind is PartKind.TOOL_RESULT for part in parts
        ):
            return None
        return "\n".join(part.text for part in parts if part.kind is PartKind.TEXT)

    def tool_calls(self, payload: object) -> ToolCallIds:
        """Return the ids of the calls that the application answers, and of their results."""
        try:
            return self.call_ids(payload)
        except Exception:
            return ToolCallIds()

    def part_at(self, payload: object, path: Path) -> Part | None:
        """Return the first part at a path, or None."""
        for block in self.blocks(payload):
            for found in (block, *block.inner):
                if found.path == path and found.parts:
                    return found.parts[0]
        return None

    def binary_at(self, payload: object, path: Path) -> tuple[bytes | BlobRef, str] | None:
        """Return the binary at a path, or its reference, with its media type; None if none."""
        part = self.part_at(payload, path)
        if part is None:
            return None
        if part.kind is PartKind.TOOL_RESULT and part.parts:
            # A result that consists of one image has no list of contents.
            part = part.parts[0]
        if part.kind not in (PartKind.IMAGE, PartKind.DOCUMENT):
            return None
        try:
            value = value_at(payload, path)
            # A reference may replace a whole text value or the text of a block.
            read = iter(()) if isinstance(value, BlobRef) else self.binaries(value)
            candidates = map(decode_binary, itertools.chain(read, _references(part, value)))
            found = next((data for data in candidates if data is not None), None)
        except (LookupError, TypeError, AttributeError, ValueError, binascii.Error):
            return None
        return None if found is None else (found, part.media_type)

    # --- what a format implements --------------------------------------------------------------

    def recognize(self, payload: Mapping[str, Any]) -> bool:
        """Return whether a dict of an unknown format has this format."""
        return False

    def read(self, payload: object) -> Iterable[TranscriptBlock]:
        """Yield the blocks of a payload."""
        raise NotImplementedError

    def summarize(self, payload: object) -> Summary:
        """Return the neutral columns; by default the role, and text and errors of the blocks."""
        if not isinstance(payload, dict):
            return EMPTY_SUMMARY
        found = parts_of(self.read(payload))
        text = join_searchable_text(readable_texts(found))
        return Summary(self.role(payload), text, None, None, None, has_error(found))

    def role(self, payload: Message) -> str:
        """Return the neutral role: ``user``, ``assistant``, ``system``, ``tool`` or empty."""
        return neutral_role(payload.get("role"))

    def call_ids(self, payload: object) -> ToolCallIds:
        """Return the ids of calls and results; by default those of all parts."""
        found = parts_of(self.read(payload))
        return ToolCallIds(
            tuple(p.call_id for p in found if p.kind is PartKind.TOOL_CALL and p.call_id),
            tuple(p.call_id for p in found if p.kind is PartKind.TOOL_RESULT and p.call_id),
        )

    def begins_with_result(self, text: str) -> bool:
        """Return whether a user's message whose JSON begins with this text is a tool's result.

        It is asked for messages that are too large to be read.
        """
        return False

    def binaries(self, block: Any) -> Iterator[Any]:
        """Yield the values of a block that may be binaries: bytes, base64, data URLs."""
        yield from block.values() if isinstance(block, dict) else (block,)

    def placeholder(self, block: Any, text: str) -> Any:
        """Return a text block that replaces a block whose binary is lost."""
        return {"type": "text", "text": text}

    def messages_in(self, document: Any) -> Iterator[tuple[Path, Any]]:
        """Yield the paths and messages in a state or a snapshot of the framework."""
        yield from ()

    def is_encrypted_summary(self, payload: object) -> bool:
        """Return whether it is a summary of messages that only the model's provider can read."""
        return False

    def node_messages(
        self, state: object, before: Sequence[object]
    ) -> Iterator[tuple[NodePath, Any]]:
        """Yield what the nodes said in the state of an orchestrator, and its task.

        The messages are in this format. Those that are also in one of the states ``before`` are
        left out: the earlier state of the orchestrator, then those of other ones.
        """
        yield from ()

    def replace_node_messages(self, state: Any, changes: Sequence[tuple[Message, Message]]) -> Any:
        """Return an orchestrator's state in which copies of messages are replaced.

        ``changes`` are pairs of a message and its replacement. Returns the state itself if it has
        no copy of them.
        """
        return state

    def redact(self, message: Message, redactor: Redactor) -> Any:
        """Redact all content of a message; by default every value that is not of the format."""
        return redactor.values(message)

    def replace(self, message: Message, redactor: Redactor) -> Any:
        """Return a message of the same role whose content is a mask, if ``redact`` fails."""
        role = message.get("role")
        is_role = redactor.vocabulary.is_word(role)
        return {"role": role if is_role else "user", "content": mask()}

    def drop_copies(self, before: Message, after: Message, changed: frozenset[str]) -> Message:
        """Remove copies and signatures of changed texts from a dict with masked values."""
        return after


class UnknownDialect(Dialect):
    """A format without a dialect: shown as JSON, without neutral columns."""

    def read(self, payload: object) -> Iterable[TranscriptBlock]:
        return (TranscriptBlock((), (unknown_part(payload),)),)

    def summarize(self, payload: object) -> Summary:
        return EMPTY_SUMMARY


def parts_of(blocks: Iterable[TranscriptBlock]) -> tuple[Part, ...]:
    """Return the parts of blocks, in order."""
    return tuple(part for block in blocks for part in block.parts)


def _references(part: Part, value: Any) -> Iterator[BlobRef]:
    """Yield the reference that replaces a text consisting of one data URL."""
    if part.size is not None:
        held = value.values() if isinstance(value, dict) else (value,)
        yield from (one for one in held if isinstance(one, BlobRef))
