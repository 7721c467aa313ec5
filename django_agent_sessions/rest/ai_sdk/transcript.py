"""A transcript as messages of the AI SDK.

A turn of the assistant is one message, however many rows it took: what the model said, the tools it
called, their results, and what it said then. A step begins where the model speaks again after a
result. Pages end between messages, never inside of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django_agent_sessions import windows
from django_agent_sessions.fields import CorruptPayload
from django_agent_sessions.models import Session, SessionAgent
from django_agent_sessions.references import Path
from django_agent_sessions.rest.serializers.fields import moment, shown
from django_agent_sessions.transcripts import ASSISTANT_UI, Part, PartKind
from django_agent_sessions.transcripts.blocks import Block, blocks
from django_agent_sessions.windows import Row, Scope

from .parts import UIPart, call, content, no_link, outcome, sources

UIMessage = dict[str, Any]
"""``{"id", "role", "metadata", "parts"}``."""

FileLink = Callable[[UUID, Path], str | None]
"""Tells where a binary of a message is; ``None`` if nowhere."""

_LONGEST = 10_000
_ROLES = frozenset({"user", "system"})


@dataclass(frozen=True, slots=True)
class Page:
    """Messages in order, and where the earlier ones are."""

    messages: list[UIMessage]
    before: UUID | None
    """What to ask for as ``before``; ``None`` at the beginning of the conversation."""


def page_of(
    session: Session,
    *,
    before: UUID | None = None,
    limit: int = windows.WINDOW,
    agent: SessionAgent | None = None,
    link: FileLink | None = None,
) -> Page:
    """Reads the end of a conversation, or what comes before a message.

    Args:
        session: The session.
        before: The id of the first message that is already there.
        limit: About how many rows to read: a page is longer where a turn is.
        agent: Only this agent's conversation; by default that of all agents, in time, save what
            assistant-ui keeps beside them: a client says there what it likes, in any role.
        link: Tells the addresses of binaries.

    Returns:
        The page.
    """
    agents = SessionAgent.objects.using(Scope(session).using).filter(session=session)
    dialects = dict(agents.values_list("id", "dialect"))
    claimed = {key for key, dialect in dialects.items() if dialect == ASSISTANT_UI}
    scope = Scope(
        session, agent, main=True, without=frozenset(() if agent is not None else claimed)
    )
    rows, earlier = _read(scope, before, limit)
    last = None if before is None else _row(scope, before)
    messages = _ui_messages(rows, last, dialects, link)
    # The first turn may have begun earlier. It is whole on the page before; only one that is
    # longer than a page is read on for.
    while earlier and rows and len(messages) < 2 and len(rows) < _LONGEST:
        more, earlier = _read(scope, rows[0].id, len(rows))
        rows = [*more, *rows]
        messages = _ui_messages(rows, last, dialects, link)
    if earlier and len(messages) > 1 and messages[0]["role"] not in _ROLES:
        messages = messages[1:]
    return Page(messages, UUID(messages[0]["id"]) if earlier and messages else None)


def _ui_messages(
    rows: Sequence[Row], after: Row | None, dialects: Mapping[UUID, str], link: FileLink | None
) -> list[UIMessage]:
    """Reads rows into messages; and of the row after them the results of calls among them."""
    reading = _Reading(dialects, link)
    for row in rows:
        reading.add(row)
    if after is not None:
        reading.answer(after)
    return [shown(message.finished()) for message in reading.messages if not message.empty]


class _Message:
    """A message that grows."""

    def __init__(self, row: Row, role: str) -> None:
        self.agent = row.agent_id
        self.role = role
        self._first = row
        self._parts: list[UIPart] = []
        self._calls: dict[str, UIPart] = {}
        self._answered = True
        self._redacted = False
        self._usage: dict[str, int] = {}

    def count(self, row: Row) -> None:
        """Takes a row's figures."""
        self._redacted |= row.redacted_at is not None
        for name, value in (("inputTokens", row.input_tokens), ("outputTokens", row.output_tokens)):
            if value is not None:
                self._usage[name] = self._usage.get(name, 0) + value

    def say(self, part: UIPart) -> None:
        """Adds a part, and the beginning of a step before it where the model speaks again."""
        if self.role == "assistant" and self._answered:
            self._parts.append({"type": "step-start"})
            self._answered = False
        self._parts.append(part)
        if part["type"] == "dynamic-tool":
            self._calls[part["toolCallId"]] = part

    def waits(self, call_id: str) -> bool:
        """Whether a tool was called by this id."""
        return call_id in self._calls

    def answer(self, call_id: str, name: str, found: UIPart) -> None:
        """Adds a tool's result to its call; a call that is not here is made up."""
        if call_id not in self._calls:
            self.say(call(Part(PartKind.TOOL_CALL, name=name, call_id=call_id), call_id))
        self._calls[call_id].update(found)
        self._answered = True

    def cut(self, row: Row, answers: bool) -> None:
        """Stands for a row that is too large to be read here."""
        waiting = self.waiting
        if answers:
            # Which of several it answers, is not told without reading it.
            if len(waiting) == 1:
                found = {"state": "output-available", "output": row.head}
                self.answer(waiting[0], "", found)
        elif row.head:
            self.say({"type": "text", "text": row.head, "state": "done"})
        self._parts.append(
            {"type": "data-truncated", "data": {"message": str(row.id), "size": row.size}}
        )

    @property
    def waiting(self) -> list[str]:
        """The calls that wait for their results."""
        calls = self._calls.items()
        return [key for key, part in calls if part["state"] == "input-available"]

    @property
    def empty(self) -> bool:
        """Whether it says nothing."""
        return not self._parts

    def finished(self) -> UIMessage:
        """Gives the message as the AI SDK has it."""
        metadata: dict[str, Any] = {
            "createdAt": moment(self._first.created_at),
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


class _Reading:
    """Reads rows one after the other."""

    def __init__(self, dialects: Mapping[UUID, str], link: FileLink | None) -> None:
        self.messages: list[_Message] = []
        self._dialects = dialects
        self._link = link

    def add(self, row: Row) -> None:
        """Reads a row."""
        if not row.read:
            last = self.messages[-1] if self.messages else None
            answers = row.role != "assistant" and last is not None and bool(last.waiting)
            self._target(row, "assistant" if answers else self._role(row, ())).cut(row, answers)
            return
        if isinstance(row.payload, CorruptPayload):
            broken = {"type": "data-corrupt", "data": {"message": str(row.id), "size": row.size}}
            self._target(row, self._role(row, ())).say(broken)
            return
        found = self._found(row)
        results = [pair for pair in found if pair[1].kind is PartKind.TOOL_RESULT]
        others = [pair for pair in found if pair[1].kind is not PartKind.TOOL_RESULT]
        if self._role(row, found) in _ROLES:
            # A user's message that carries results too, as Strands' do after an interruption.
            self._say(row, "assistant", results)
            self._say(row, self._role(row, others), others)
        else:
            self._say(row, "assistant", found)

    def answer(self, row: Row) -> None:
        """Reads a row's results of calls that wait, and nothing else of it."""
        if not row.read or isinstance(row.payload, CorruptPayload):
            return
        link = no_link if self._link is None else _of_row(self._link, row.id)
        for block, part in self._found(row):
            if part.kind is PartKind.TOOL_RESULT:
                for message in reversed(self.messages):
                    if part.call_id in message.waiting:
                        message.answer(part.call_id, part.name, outcome(block, part, link))
                        break

    def _found(self, row: Row) -> list[tuple[Block, Part]]:
        dialect = self._dialects.get(row.agent_id, "")
        return [(block, part) for block in blocks(dialect, row.payload) for part in block.parts]

    def _role(self, row: Row, found: Iterable[tuple[Block, Part]]) -> str:
        kinds = {part.kind for _block, part in found}
        if row.role not in _ROLES or kinds == {PartKind.TOOL_RESULT}:
            return "assistant"
        return row.role

    def _say(self, row: Row, role: str, found: Sequence[tuple[Block, Part]]) -> None:
        if not found:
            return
        message = self._target(row, role)
        link = no_link if self._link is None else _of_row(self._link, row.id)
        cited: list[UIPart] = []
        for number, (block, part) in enumerate(found):
            spare = f"{row.id}-{number}"
            if part.kind is PartKind.TOOL_RESULT:
                asked = self._asked(message, part.call_id)
                asked.answer(part.call_id or spare, part.name or "tool", outcome(block, part, link))
            elif part.kind is PartKind.TOOL_CALL:
                message.say(call(part, spare))
            elif (said := content(part, block.path, link)) is not None:
                message.say(said)
                cited.extend(sources(part))
        for source in cited:
            message.say(source)

    def _asked(self, message: _Message, call_id: str) -> _Message:
        """Finds who called: mostly the message that the result is read into."""
        if message.waits(call_id):
            return message
        found = (one for one in reversed(self.messages) if one.waits(call_id))
        return next(found, message)

    def _target(self, row: Row, role: str) -> _Message:
        last = self.messages[-1] if self.messages else None
        joins = last is not None and last.role == role == "assistant"
        if last is None or not joins or last.agent != row.agent_id:
            last = _Message(row, role)
            self.messages.append(last)
        last.count(row)
        return last


def _of_row(link: FileLink, message: UUID) -> Callable[[Path], str | None]:
    return lambda path: link(message, path)


def _read(scope: Scope, before: UUID | None, limit: int) -> tuple[list[Row], bool]:
    """Reads rows with their payloads; and tells whether there are earlier ones."""
    if before is None:
        window = windows.ending(scope, count=limit)
    else:
        window = windows.before(scope, before, count=limit)
    if window.rows:
        windows.fill(scope, window.rows)
    return window.rows, window.earlier


def _row(scope: Scope, key: UUID) -> Row | None:
    window = windows.ending(replace(scope, only=frozenset({key})), count=1)
    windows.fill(scope, window.rows)
    return window.rows[0] if window.rows else None
