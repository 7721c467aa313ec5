"""Looking at what was said: positions, payloads, calls of tools, redactions, neutral columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import ExpressionWrapper, F, QuerySet, TextField

from django_agent_sessions import blobs, payloads, transcripts
from django_agent_sessions.exceptions import BlobError
from django_agent_sessions.fields import CorruptPayload, read
from django_agent_sessions.models import SessionMessage
from django_agent_sessions.store.imported import FIGURES, figure
from django_agent_sessions.usage.tallies import day_of

from .batch import Agent, Batch, Span, Tally
from .findings import Kind
from .pairs import pairs
from .pieces import PART, size_of, small_enough

ROLE_LENGTH = 32
_MOST_ANSWERED = 10_000
"""Calls of which it is remembered that they were answered; memory is bounded."""

_COLUMNS = (
    "pk",
    "session_id",
    "agent_id",
    "branch",
    "message_id",
    "source",
    "revision",
    "role",
    "text",
    *FIGURES,
    "redacted_at",
    "created_at",
)
_TEXTS = {
    # As text: it is parsed once, also where both are the same.
    "payload": ExpressionWrapper(F("message"), output_field=TextField()),
    "redacted": ExpressionWrapper(F("redact_message"), output_field=TextField()),
}


class Message(NamedTuple):
    """A row of a message."""

    pk: UUID
    session: UUID
    agent: UUID
    branch: int
    position: int
    source: UUID | None
    revision: int
    role: str
    text: str
    input_tokens: int | None
    output_tokens: int | None
    latency_ms: int | None
    redacted_at: datetime | None
    created_at: datetime
    payload: str
    redacted: str | None

    @property
    def shown(self) -> str:
        """The text of the payload that everybody reads."""
        return self.payload if self.redacted is None else self.redacted


def each_part(using: str, spans: Sequence[Span]) -> Iterator[list[Message]]:
    """Walks through conversations in order, many short ones at once and long ones in parts."""
    messages = SessionMessage.objects.using(using).order_by("agent", "branch", "message_id")
    for pack in _packs(spans):
        if len(pack) == 1 and pack[0].messages > PART:
            yield from _long(messages, pack[0])
        else:
            there = {(span.agent, span.branch) for span in pack}
            rows = messages.filter(agent__in={span.agent for span in pack})
            for part in _read(rows):
                yield [row for row in part if (row.agent, row.branch) in there]


def _packs(spans: Sequence[Span]) -> Iterator[list[Span]]:
    """Puts the conversations of whole agents together; one with a long one is divided."""
    by_agent: dict[UUID, list[Span]] = defaultdict(list)
    for span in spans:
        by_agent[span.agent].append(span)
    pack: list[Span] = []
    room = PART
    for group in by_agent.values():
        size = sum(span.messages for span in group)
        if pack and size > room:
            yield pack
            pack, room = [], PART
        if size > PART:
            yield from ([span] for span in group)
        else:
            pack += group
            room -= size
    if pack:
        yield pack


def _long(messages: QuerySet[SessionMessage], span: Span) -> Iterator[list[Message]]:
    rows = messages.filter(agent=span.agent, branch=span.branch)
    last = -1
    # What is said meanwhile is looked at the next time.
    while last < span.last:
        found = list(rows.filter(message_id__gt=last)[:PART].values_list("message_id", flat=True))
        if not found:
            return
        yield from _read(rows.filter(message_id__gte=found[0], message_id__lte=found[-1]))
        last = found[-1]


def read_messages(using: str, keys: Sequence[UUID]) -> Iterator[list[Message]]:
    """Reads messages by their keys."""
    yield from _read(SessionMessage.objects.using(using).filter(pk__in=keys))


def _read(rows: QuerySet[SessionMessage]) -> Iterator[list[Message]]:
    sized = ("message", "redact_message", "text")
    heads = list(rows.annotate(bytes=size_of(sized)).values_list("pk", "bytes"))
    for keys in small_enough(heads):
        part = SessionMessage.objects.using(rows.db).filter(pk__in=keys).order_by()
        found = {row[0]: Message(*row) for row in part.values_list(*_COLUMNS, *_TEXTS.values())}
        yield [found[key] for key in keys if key in found]


class Conversations:
    """One look at all that was said in a batch."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._place: tuple[UUID, int] | None = None
        self._next = 0
        # Where the calls are that wait for a result. An id may be used again.
        self._open: dict[str, list[tuple[int, UUID]]] = {}
        # The latest that have one.
        self._answered: dict[str, None] = {}

    def look(self) -> Iterator[list[Message]]:
        """Looks at all messages."""
        for part in each_part(self._batch.using, self._batch.spans):
            for row in part:
                agent = self._batch.agents[row.agent]
                if (row.agent, row.branch) != self._place:
                    self._end()
                    self._place, self._next = (row.agent, row.branch), 0
                self._look_at(row, agent)
            self._batch.messages += len(part)
            yield part
        self._end()

    def _look_at(self, row: Message, agent: Agent) -> None:
        where = _where(row)
        if row.session != agent.session:
            self._batch.add(Kind.MISPLACED, **where, detail="message")
        if row.position > self._next:
            missing = row.position - self._next
            self._batch.add(
                Kind.GAP,
                session=row.session,
                agent=row.agent,
                branch=row.branch,
                position=self._next,
                detail=f"{missing} missing",
            )
        self._next = row.position + 1
        self._count(row)
        content = read(row.shown)
        corrupt = isinstance(content, CorruptPayload)
        self._look_at_redaction(row)
        if corrupt or (row.redacted is not None and _is_corrupt(row)):
            self._batch.add(Kind.CORRUPT, **where)
        if corrupt:
            # Its columns may be all that is left of it.
            return
        if columns := changed_columns(self._batch, row, agent, content):
            self._batch.add(Kind.NEUTRAL, **where, detail=", ".join(columns))
        self._look_at_calls(row, agent, content)

    def _look_at_redaction(self, row: Message) -> None:
        held = self._batch.sessions[row.session].legal_hold if self._knows(row) else True
        if row.redacted_at is not None and row.redacted is None:
            self._batch.add(Kind.UNHIDDEN, **_where(row))
        edited = row.redacted_at is None and row.redacted not in (None, row.payload)
        if edited and not held:
            self._batch.add(Kind.UNHELD_ORIGINAL, **_where(row))

    def _knows(self, row: Message) -> bool:
        return row.session in self._batch.sessions

    def _look_at_calls(self, row: Message, agent: Agent, content: Any) -> None:
        found = pairs(agent.dialect, content)
        for call in found.results:
            waiting = self._open.get(call)
            if not waiting:
                self._batch.add(self._why_nobody_waits(row, agent, call), **_where(row))
            else:
                self._answered[call] = None
                if len(self._answered) > _MOST_ANSWERED:
                    del self._answered[next(iter(self._answered))]
                waiting.pop()
                if not waiting:
                    del self._open[call]
        for call in found.calls:
            self._open.setdefault(call, []).append((row.position, row.pk))

    def _why_nobody_waits(self, row: Message, agent: Agent, call: str) -> Kind:
        # A Strands agent that was restored while another process worked says that a call was
        # interrupted, which is answered after all. Restores keep the real answer.
        if agent.dialect == transcripts.STRANDS and call in self._answered:
            return Kind.ANSWERED_TWICE
        # Somebody went back in time between the call and its result. A fork copies the main branch
        # alone, and its call is where it was copied from.
        rows = SessionMessage.objects.using(self._batch.using)
        if row.source is None:
            rows = rows.filter(agent=row.agent).exclude(branch=row.branch)
        else:
            first = rows.filter(pk=row.source)
            if not first.exists():
                return Kind.CALL_ELSEWHERE
            rows = rows.filter(agent__in=first.values("agent"))
        for part in _read(rows.order_by("branch", "message_id")):
            for other in part:
                if call in pairs(agent.dialect, read(other.shown)).calls:
                    return Kind.CALL_ELSEWHERE
        return Kind.ORPHAN_RESULT

    def _end(self) -> None:
        """Tells of the calls of a conversation that nobody answered."""
        if self._place is not None:
            agent, branch = self._place
            for position, key in sorted({spot for spots in self._open.values() for spot in spots}):
                self._batch.add(
                    Kind.OPEN_CALL,
                    session=self._batch.agents[agent].session,
                    agent=agent,
                    branch=branch,
                    position=position,
                    row=key,
                )
        self._open = {}
        self._answered = {}

    def _count(self, row: Message) -> None:
        if row.source is not None:
            # A copy was neither said nor paid for again.
            return
        figures = (row.input_tokens, row.output_tokens)
        spent = self._batch.spent.get(row.session, Tally())
        self._batch.spent[row.session] = spent.plus(1, *figures)
        counted = self._batch.counted
        if counted is not None and row.pk <= counted and self._is_own(row):
            day = day_of(row.created_at)
            self._batch.days[day] = self._batch.days.get(day, Tally()).plus(1, *figures)

    def _is_own(self, row: Message) -> bool:
        """Whether a message was said here: keys of what was imported say when it was elsewhere."""
        return self._knows(row) and self._batch.sessions[row.session].origin is None


def changed_columns(batch: Batch, row: Message, agent: Agent, content: Any) -> dict[str, Any]:
    """Compares the neutral columns of a message with what they are read from."""
    told = transcripts.summary(agent.dialect, content)
    wanted: dict[str, Any] = {"role": told.role[:ROLE_LENGTH], "text": told.text}
    # Of what was changed, imported or copied, the figures are those of what was said first.
    session = batch.sessions.get(row.session)
    original = row.revision == 0 and row.source is None and row.redacted_at is None
    if original and session is not None and session.origin is None:
        wanted |= {name: figure(getattr(told, name)) for name in FIGURES}
    changed = {name: value for name, value in wanted.items() if getattr(row, name) != value}
    if "text" in changed and payloads.has_blobs(row.shown):
        # It was read before large binaries were taken out.
        try:
            (whole,) = blobs.found_in(batch.using, row.session, [content])
        except BlobError:
            del changed["text"]
        else:
            if transcripts.summary(agent.dialect, whole).text == row.text:
                del changed["text"]
    return changed


def _is_corrupt(row: Message) -> bool:
    return row.payload != row.redacted and isinstance(read(row.payload), CorruptPayload)


def _where(row: Message) -> dict[str, Any]:
    return {
        "session": row.session,
        "agent": row.agent,
        "branch": row.branch,
        "position": row.position,
        "row": row.pk,
    }
