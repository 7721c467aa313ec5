"""A transcript as messages of the AI SDK.

A turn of the assistant is one message, however many rows it has: the model's text, its tool calls,
their results, and the text after them. A step starts where the model continues after a result.
Pages end between messages, never within one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django_agent_sessions.content import dialects
from django_agent_sessions.content.dialects import Dialect, Part, PartKind, TranscriptBlock
from django_agent_sessions.content.paths import Path
from django_agent_sessions.models import Session, SessionAgent
from django_agent_sessions.models.fields import CorruptPayload
from django_agent_sessions.queries import message_pages
from django_agent_sessions.queries.message_pages import MessagePreview, MessageQuery
from django_agent_sessions.rest.serializers.fields import displayable_json, format_datetime

from .ui_parts import (
    UIPart,
    content_part,
    no_link,
    source_parts,
    tool_call_part,
    tool_result_fields,
)

UIMessage = dict[str, Any]
"""A message of the AI SDK: ``{"id", "role", "metadata", "parts"}``."""

FileLink = Callable[[UUID, Path], str | None]
"""A function that returns the URL of a binary of a message, or ``None``."""

_MAX_ROWS = 10_000
_ROLES = frozenset({"user", "system"})


@dataclass(frozen=True, slots=True)
class Page:
    """A page of messages, oldest first."""

    messages: list[UIMessage]
    before: UUID | None
    """The ``before`` of the previous page; ``None`` at the start of the conversation."""


def page_of(
    session: Session,
    *,
    before: UUID | None = None,
    limit: int = message_pages.MESSAGES_PER_PAGE,
    agent: SessionAgent | None = None,
    link: FileLink | None = None,
) -> Page:
    """Read the last messages of a conversation, or those before a given message.

    Args:
        session: The session.
        before: The id of the first message that the caller already has.
        limit: About how many rows to read: a page is longer if a turn is.
        agent: The agent whose conversation to read. By default all agents' messages in order of
            time, except those that clients of assistant-ui keep, which may claim any role and text.
        link: Returns the URLs of binaries.

    Returns:
        The page.
    """
    agents = SessionAgent.objects.using(MessageQuery(session).using).filter(session=session)
    formats = {key: dialects.get(name) for key, name in agents.values_list("id", "dialect")}
    client_agents = {key for key, dialect in formats.items() if dialect.is_client_written}
    scope = MessageQuery(
        session, agent, main=True, without=frozenset(() if agent is not None else client_agents)
    )
    rows, earlier = _read(scope, before, limit)
    last = None if before is None else _row(scope, before)
    messages = _ui_messages(rows, last, formats, link)
    # The first turn may have started earlier. It is left to the previous page, unless it is the
    # only one: then more rows are read.
    while earlier and rows and len(messages) < 2 and len(rows) < _MAX_ROWS:
        more, earlier = _read(scope, rows[0].id, len(rows))
        rows = [*more, *rows]
        messages = _ui_messages(rows, last, formats, link)
    if earlier and len(messages) > 1 and messages[0]["role"] not in _ROLES:
        messages = messages[1:]
    return Page(messages, UUID(messages[0]["id"]) if earlier and messages else None)


def _ui_messages(
    rows: Sequence[MessagePreview],
    after: MessagePreview | None,
    formats: Mapping[UUID, Dialect],
    link: FileLink | None,
) -> list[UIMessage]:
    """Convert rows to messages; of the row after them only results of calls in them are used."""
    reading = _Converter(formats, link)
    for row in rows:
        reading.add(row)
    if after is not None:
        reading.answer(after)
    return [
        displayable_json(message.as_json()) for message in reading.messages if not message.is_empty
    ]


class _Message:
    """A message under construction."""

    def __init__(self, row: MessagePreview, role: str) -> None:
        self.agent = row.agent_id
        self.role = role
        self._first = row
        self._parts: list[UIPart] = []
        self._calls: dict[str, UIPart] = {}
        self._has_results = True
        self._redacted = False
        self._usage: dict[str, int] = {}

    def count(self, row: MessagePreview) -> None:
        """Add the usage and the redaction of a row."""
        self._redacted |= row.redacted_at is not None
        for name, value in (("inputTokens", row.input_tokens), ("outputTokens", row.output_tokens)):
            if value is not None:
                self._usage[name] = self._usage.get(name, 0) + value

    def say(self, part: UIPart) -> None:
        """Add a part, after a ``step-start`` if the model continues after a result."""
        if self.role == "assistant" and self._has_results:
            self._parts.append({"type": "step-start"})
            self._has_results = False
        self._parts.append(part)
        if part["type"] == "dynamic-tool":
            self._calls[part["toolCallId"]] = part

    def has_call(self, call_id: str) -> bool:
        """Whether it has a call of this id."""
        return call_id in self._calls

    def answer(self, call_id: str, name: str, found: UIPart) -> None:
        """Add a tool's result to its call; if there is no such call, create it."""
        if call_id not in self._calls:
            self.say(tool_call_part(Part(PartKind.TOOL_CALL, name=name, call_id=call_id), call_id))
        self._calls[call_id].update(found)
        self._has_results = True

    def add_truncated(self, row: MessagePreview, answers: bool) -> None:
        """Add what is known of a row that is too large to be read here."""
        pending_calls = self.pending_calls
        if answers:
            # With several pending calls, the row would have to be read to choose one.
            if len(pending_calls) == 1:
                result = {"state": "output-available", "output": row.head}
                self.answer(pending_calls[0], "", result)
        elif row.head:
            self.say({"type": "text", "text": row.head, "state": "done"})
        self._parts.append(
            {"type": "data-truncated", "data": {"message": str(row.id), "size": row.size}}
        )

    @property
    def pending_calls(self) -> list[str]:
        """The calls that have no result yet."""
        calls = self._calls.items()
        return [key for key, part in calls if part["state"] == "input-available"]

    @property
    def is_empty(self) -> bool:
        """Whether it has no parts."""
        return not self._parts

    def as_json(self) -> UIMessage:
        """Return the message as JSON of the AI SDK."""
        metadata: dict[str, Any] = {
            "createdAt": format_datetime(self._first.created_at),
            "redacted": self._redacted,
        }
        if self._usage:
            metadata["usage"] = self._usage
        return {
            "id": str(self._first.id),
            "role": self.role,
            "metadata": metadata,
            "parts": self._parts,
        }


class _Converter:
    """A converter of rows, which are added one after the other."""

    def __init__(self, formats: Mapping[UUID, Dialect], link: FileLink | None) -> None:
        self.messages: list[_Message] = []
        self._formats = formats
        self._link = link

    def add(self, row: MessagePreview) -> None:
        """Convert a row."""
        if not row.read:
            last = self.messages[-1] if self.messages else None
            answers = row.role != "assistant" and last is not None and bool(last.pending_calls)
            self._target(row, "assistant" if answers else self._role(row, ())).add_truncated(
                row, answers
            )
            return
        if isinstance(row.payload, CorruptPayload):
            corrupt = {"type": "data-corrupt", "data": {"message": str(row.id), "size": row.size}}
            self._target(row, self._role(row, ())).say(corrupt)
            return
        block_parts = self._block_parts(row)
        results = [pair for pair in block_parts if pair[1].kind is PartKind.TOOL_RESULT]
        others = [pair for pair in block_parts if pair[1].kind is not PartKind.TOOL_RESULT]
        if self._role(row, block_parts) in _ROLES:
            # A user's message that also has results, as Strands writes after an interruption.
            self._say(row, "assistant", results)
            self._say(row, self._role(row, others), others)
        else:
            self._say(row, "assistant", block_parts)

    def answer(self, row: MessagePreview) -> None:
        """Use the row's results of pending calls, and nothing else of it."""
        if not row.read or isinstance(row.payload, CorruptPayload):
            return
        link = no_link if self._link is None else _link_of_row(self._link, row.id)
        for block, part in self._block_parts(row):
            if part.kind is PartKind.TOOL_RESULT:
                for message in reversed(self.messages):
                    if part.call_id in message.pending_calls:
                        message.answer(
                            part.call_id, part.name, tool_result_fields(block, part, link)
                        )
                        break

    def _block_parts(self, row: MessagePreview) -> list[tuple[TranscriptBlock, Part]]:
        dialect = self._formats.get(row.agent_id) or dialects.get("")
        return [(block, part) for block in dialect.blocks(row.payload) for part in block.parts]

    def _role(
        self, row: MessagePreview, block_parts: Iterable[tuple[TranscriptBlock, Part]]
    ) -> str:
        kinds = {part.kind for _block, part in block_parts}
        if row.role not in _ROLES or kinds == {PartKind.TOOL_RESULT}:
            return "assistant"
        return row.role

    def _say(
        self, row: MessagePreview, role: str, block_parts: Sequence[tuple[TranscriptBlock, Part]]
    ) -> None:
        if not block_parts:
            return
        message = self._target(row, role)
        link = no_link if self._link is None else _link_of_row(self._link, row.id)
        citations: list[UIPart] = []
        for number, (block, part) in enumerate(block_parts):
            spare = f"{row.id}-{number}"
            if part.kind is PartKind.TOOL_RESULT:
                caller = self._caller(message, part.call_id)
                caller.answer(
                    part.call_id or spare,
                    part.name or "tool",
                    tool_result_fields(block, part, link),
                )
            elif part.kind is PartKind.TOOL_CALL:
                message.say(tool_call_part(part, spare))
            elif (ui_part := content_part(part, block.path, link)) is not None:
                message.say(ui_part)
                citations.extend(source_parts(part))
        for source in citations:
            message.say(source)

    def _caller(self, message: _Message, call_id: str) -> _Message:
        """Return the message with the call: mostly the one that the result is read into."""
        if message.has_call(call_id):
            return message
        callers = (
            candidate for candidate in reversed(self.messages) if candidate.has_call(call_id)
        )
        return next(callers, message)

    def _target(self, row: MessagePreview, role: str) -> _Message:
        last = self.messages[-1] if self.messages else None
        continues = last is not None and last.role == role == "assistant"
        if last is None or not continues or last.agent != row.agent_id:
            last = _Message(row, role)
            self.messages.append(last)
        last.count(row)
        return last


def _link_of_row(link: FileLink, message: UUID) -> Callable[[Path], str | None]:
    return lambda path: link(message, path)


def _read(
    scope: MessageQuery, before: UUID | None, limit: int
) -> tuple[list[MessagePreview], bool]:
    """Read rows with their payloads; return them, and whether there are earlier ones."""
    if before is None:
        window = message_pages.last_page(scope, count=limit)
    else:
        window = message_pages.page_before(scope, before, count=limit)
    if window.rows:
        message_pages.read_payloads(scope, window.rows)
    return window.rows, window.has_earlier


def _row(scope: MessageQuery, key: UUID) -> MessagePreview | None:
    window = message_pages.last_page(replace(scope, only=frozenset({key})), count=1)
    message_pages.read_payloads(scope, window.rows)
    return window.rows[0] if window.rows else None
