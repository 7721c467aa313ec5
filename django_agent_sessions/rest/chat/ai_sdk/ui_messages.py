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
from django_agent_sessions.db.loop_guard import sync_only
from django_agent_sessions.models import SessionAgent
from django_agent_sessions.models.fields import CorruptPayload
from django_agent_sessions.models.session_names import SessionName, read_named
from django_agent_sessions.models.stored_text import payload_beginning
from django_agent_sessions.queries import message_pages
from django_agent_sessions.queries.message_pages import MessagePreview, MessageQuery
from django_agent_sessions.rest.serializers.fields import displayable_json, format_datetime
from django_agent_sessions.values.records import Usage
from django_agent_sessions.values.token_counts import TokenCounts

from .tool_calls import ClientCall, ToolCalls
from .ui_parts import (
    TOOL_INTERRUPTED,
    UIPart,
    content_part,
    no_link,
    outcome_fields,
    source_parts,
    tool_call_part,
    tool_result_fields,
)

UIMessage = dict[str, Any]
"""A message of the AI SDK: ``{"id", "role", "metadata", "parts"}``."""

FileLink = Callable[[UUID, Path], str | None]
"""A function that returns the URL of a binary of a message, or ``None``."""

_MAX_ROWS = 10_000
_BEGINNING_LENGTH = 200
_ROLES = frozenset({"user", "system"})


@dataclass(frozen=True, slots=True)
class Page:
    """A page of messages, oldest first."""

    messages: list[UIMessage]
    before: UUID | None
    """The ``before`` of the previous page; ``None`` at the start of the conversation."""


@sync_only
def page_of(
    session: SessionName,
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
    session = read_named(session)
    agents = SessionAgent.objects.using(MessageQuery(session).using).filter(session=session)
    formats = {key: dialects.get(name) for key, name in agents.values_list("id", "dialect")}
    client_agents = {key for key, dialect in formats.items() if dialect.is_client_written}
    scope = MessageQuery(
        session, agent, main=True, without=frozenset(() if agent is not None else client_agents)
    )
    rows, earlier = _read(scope, before, limit)
    last = None if before is None else _row(scope, before)
    results = _large_results(scope, [*rows, *([] if last is None else [last])], formats)
    messages = _ui_messages(rows, last, _Converter(formats, link, results))
    # The first turn may have started earlier. It is left to the previous page, unless it is the
    # only one: then more rows are read.
    while earlier and rows and len(messages) < 2 and len(rows) < _MAX_ROWS:
        more, earlier = _read(scope, rows[0].id, len(rows))
        rows = [*more, *rows]
        results |= _large_results(scope, more, formats)
        messages = _ui_messages(rows, last, _Converter(formats, link, results))
    if earlier and len(messages) > 1 and messages[0]["role"] not in _ROLES:
        messages = messages[1:]
    return Page(messages, UUID(messages[0]["id"]) if earlier and messages else None)


def _ui_messages(
    rows: Sequence[MessagePreview], after: MessagePreview | None, reading: _Converter
) -> list[UIMessage]:
    """Convert rows to messages; of the row after them only results of calls in them are used."""
    for row in rows:
        reading.add(row)
    if after is not None:
        reading.answer(after)
    reading.end(after)
    return [
        displayable_json(message.as_json()) for message in reading.messages if not message.is_empty
    ]


def _usage(spent: Usage) -> dict[str, Any]:
    """Return the known counts by the names of the AI SDK, whose input includes a cache's, too."""
    whole = {"inputTokens": spent.input_tokens, "outputTokens": spent.output_tokens}
    cached = {
        "cacheReadTokens": spent.cache_read_tokens,
        "cacheWriteTokens": spent.cache_write_tokens,
    }
    usage: dict[str, Any] = {name: count for name, count in whole.items() if count is not None}
    details = {name: count for name, count in cached.items() if count is not None}
    return {**usage, "inputTokenDetails": details} if details else usage


class _Message:
    """A message under construction."""

    def __init__(self, row: MessagePreview, role: str) -> None:
        self.agent = row.agent_id
        self.role = role
        self._first = row
        self._parts: list[UIPart] = []
        self.calls = ToolCalls()
        self._has_results = True
        self._redacted = False
        self._spent = Usage()

    def count(self, row: MessagePreview) -> None:
        """Add the usage and the redaction of a row."""
        self._redacted |= row.redacted_at is not None
        counts = (getattr(row, name) for name in TokenCounts._fields)
        self._spent += Usage.of_tokens(counts)

    def say(self, part: UIPart) -> None:
        """Add a part, after a ``step-start`` if the model continues after a result."""
        self._begin_step()
        self._parts.append(part)

    def say_call(self, part: Part) -> ClientCall:
        """Add a tool call."""
        self._begin_step()
        call = self.calls.add(part.call_id)
        call.part = tool_call_part(part, call.id) | outcome_fields(part)
        self.say(call.part)
        return call

    def answer(self, call: ClientCall, found: UIPart, *, same_row: bool = False) -> None:
        """Add a tool's result to its call.

        The model continues after it, unless call and result are the same item of a provider.
        """
        call.part.update(found)
        call.results += 1
        self._has_results |= not same_row

    def _begin_step(self) -> None:
        if self.role == "assistant" and self._has_results:
            self._parts.append({"type": "step-start"})
            self._has_results = False
            self.calls.begin_step()

    def add_truncated(self, row: MessagePreview, answers: bool) -> None:
        """Add what is known of a row that is too large to be read here."""
        if answers:
            # With several open calls, the row would have to be read to choose one.
            if len(open_calls := self.calls.open) == 1:
                result = {"state": "output-available", "output": row.head}
                self.answer(open_calls[0], result)
        elif row.head:
            self.say({"type": "text", "text": row.head, "state": "done"})
        self._parts.append(
            {"type": "data-truncated", "data": {"message": str(row.id), "size": row.size}}
        )

    def interrupt(self) -> None:
        """End the calls that have no result and get none any more."""
        for call in self.calls.open:
            call.part |= {"state": "output-error", "errorText": TOOL_INTERRUPTED}

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
        if usage := _usage(self._spent):
            metadata["usage"] = usage
        return {
            "id": str(self._first.id),
            "role": self.role,
            "metadata": metadata,
            "parts": self._parts,
        }


class _Converter:
    """A converter of rows, which are added one after the other."""

    def __init__(
        self,
        formats: Mapping[UUID, Dialect],
        link: FileLink | None,
        large_results: frozenset[UUID],
    ) -> None:
        self.messages: list[_Message] = []
        self._formats = formats
        self._link = link
        self._large_results = large_results

    def add(self, row: MessagePreview) -> None:
        """Convert a row."""
        if not row.read:
            last = self.messages[-1] if self.messages else None
            is_result = row.role == "tool" or row.id in self._large_results
            answers = is_result and last is not None and bool(last.calls.open)
            self._target(row, self._role(row, ())).add_truncated(row, answers)
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
                    call = message.calls.answered_by(part.call_id)
                    if call is not None and call.is_open:
                        message.answer(call, tool_result_fields(block, part, link))
                        break

    def end(self, after: MessagePreview | None) -> None:
        """End the calls of each agent to which the user has written since."""
        agents = set() if after is None or not self._is_users(after) else {after.agent_id}
        for message in reversed(self.messages):
            if message.role == "user":
                agents.add(message.agent)
            elif message.agent in agents:
                message.interrupt()

    def _is_users(self, row: MessagePreview) -> bool:
        is_known = row.read and not isinstance(row.payload, CorruptPayload)
        return self._role(row, self._block_parts(row) if is_known else ()) == "user"

    def _block_parts(self, row: MessagePreview) -> list[tuple[TranscriptBlock, Part]]:
        dialect = _format(self._formats, row.agent_id)
        return [(block, part) for block in dialect.blocks(row.payload) for part in block.parts]

    def _role(
        self, row: MessagePreview, block_parts: Iterable[tuple[TranscriptBlock, Part]]
    ) -> str:
        kinds = {part.kind for _block, part in block_parts}
        is_result = kinds == {PartKind.TOOL_RESULT} or row.id in self._large_results
        if row.role not in _ROLES or is_result:
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
        row_calls: set[ClientCall] = set()
        for block, part in block_parts:
            if part.kind is PartKind.TOOL_RESULT:
                found = self._call(message, part.call_id)
                caller, call = found or (message, message.say_call(_call_of(part)))
                fields = tool_result_fields(block, part, link)
                caller.answer(call, fields, same_row=call in row_calls)
            elif part.kind is PartKind.TOOL_CALL:
                call = message.say_call(part)
                # A browser stores a whole answer of several responses as one message.
                if not _format(self._formats, row.agent_id).is_client_written:
                    row_calls.add(call)
            elif (ui_part := content_part(part, block.path, link)) is not None:
                message.say(ui_part)
                citations.extend(source_parts(part))
        for source in citations:
            message.say(source)

    def _call(self, message: _Message, call_id: str) -> tuple[_Message, ClientCall] | None:
        """Return the call of a result: mostly one of the message that the result is read into."""
        for candidate in (message, *reversed(self.messages)):
            if (call := candidate.calls.answered_by(call_id)) is not None:
                return candidate, call
        return None

    def _target(self, row: MessagePreview, role: str) -> _Message:
        last = self.messages[-1] if self.messages else None
        continues = last is not None and last.role == role == "assistant"
        if last is None or not continues or last.agent != row.agent_id:
            last = _Message(row, role)
            self.messages.append(last)
        last.count(row)
        return last


def _call_of(result: Part) -> Part:
    """Return a call for a result without one."""
    return Part(PartKind.TOOL_CALL, name=result.name, call_id=result.call_id)


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


def _large_results(
    scope: MessageQuery, rows: Iterable[MessagePreview], formats: Mapping[UUID, Dialect]
) -> frozenset[UUID]:
    """Return the results of tools among messages of users that are too large to be read."""
    agents = {row.id: row.agent_id for row in rows if not row.read and row.role == "user"}
    if not agents:
        return frozenset()
    beginnings = scope.messages.filter(pk__in=agents).values_list(
        "pk", payload_beginning(_BEGINNING_LENGTH)
    )
    return frozenset(
        key
        for key, text in beginnings
        if _format(formats, agents[key]).begins_with_result(text or "")
    )


def _format(formats: Mapping[UUID, Dialect], agent: UUID) -> Dialect:
    """Return the dialect of an agent; the unknown one if the agent is new."""
    return formats.get(agent) or dialects.get("")


def _row(scope: MessageQuery, key: UUID) -> MessagePreview | None:
    window = message_pages.last_page(replace(scope, only=frozenset({key})), count=1)
    message_pages.read_payloads(scope, window.rows)
    return window.rows[0] if window.rows else None
