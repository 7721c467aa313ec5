"""Read the events after cursors, in batches that are the same for all viewers of a session.

Many sessions are read together: each has a reader, a generator that yields what it needs next, and
what several readers need is one statement.
"""

from __future__ import annotations

import heapq
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any
from uuid import UUID

from django.db.models import Q

from django_agent_sessions.db import bridge
from django_agent_sessions.models import Session
from django_agent_sessions.queries import message_pages
from django_agent_sessions.queries.message_pages import MessagePreview

from .cursor import Cursor, MessagePosition, RedactionPosition
from .event_types import (
    Change,
    Event,
    EventBatch,
    FeedbackEvent,
    MessageEvent,
    Reason,
    RemovedEvent,
    ResetEvent,
    SessionEvent,
)
from .session_states import (
    MAX_AGENTS_PER_STATEMENT,
    MessageRange,
    MessageVersion,
    SessionState,
    last_message_upto,
    messages_after,
    messages_at,
    positions_unchanged_since,
    read_states,
    redacted_messages,
)

EVENTS_PER_BATCH = 50
"""Maximum number of events per batch, of redactions and of other events each."""

_SESSIONS_PER_PART = 50
_TRIES = 5
_SCAN_SIZE = 500


@dataclass(frozen=True, slots=True)
class _Step:
    """A message to send."""

    agent: UUID
    id: UUID
    position: int
    change: Change
    redaction: RedactionPosition | None = None


def first_cursor(session: Session) -> Cursor | None:
    """Return a cursor before all messages; None if the session was deleted."""
    state = _read_state(session)
    return None if state is None else Cursor(session.pk, state.change)


def current_cursor(session: Session) -> Cursor | None:
    """Return a cursor after all messages; None if the session was deleted."""
    state = _read_state(session)
    return None if state is None else _cursor_at(session.pk, state)


def read_events(
    session: Session, cursor: Cursor, *, count: int = EVENTS_PER_BATCH
) -> EventBatch | None:
    """Read the events after a cursor; see :func:`read_batches`."""
    ((_, batch),) = read_batches([(session, cursor)], count=count)
    return batch


def read_batches(
    asked: Sequence[tuple[Session, Cursor]], *, count: int = EVENTS_PER_BATCH
) -> Iterator[tuple[int, EventBatch | None]]:
    """Read the events after cursors of several sessions; yield each batch with its index.

    A batch is None if the session was deleted or has another owner. Its events are as of one change
    number: if it increases between two statements, the batch is read again. At any time, the
    payloads of all sessions together have the size of a page.
    """
    waiting = list(enumerate(asked))
    while waiting:
        part, waiting = waiting[:_SESSIONS_PER_PART], waiting[_SESSIONS_PER_PART:]
        found = _read_part(dict(part), count)
        waiting[:0] = [(index, each) for index, each in part if index not in found]
        yield from found.items()


def _read_part(
    asked: dict[int, tuple[Session, Cursor]], count: int
) -> dict[int, EventBatch | None]:
    """Return the batches; those are missing whose payloads had no room beside the others'."""
    found: dict[int, EventBatch | None] = {}
    using = bridge.database()
    for _ in range(_TRIES):
        states = read_states(using, {session.pk for session, _ in asked.values()})
        readers = {
            index: _Reader(states[session.pk], cursor, count)
            for index, (session, cursor) in asked.items()
            if session.pk in states
        }
        _run(readers.values())
        keys = {session.pk for session, _ in asked.values()}
        rows = Session.objects.using(using).defer("metadata", "origin").in_bulk(keys)
        for index, (session, _) in list(asked.items()):
            reader, current = readers.get(index), rows.get(session.pk)
            if reader is None or current is None or current.owner_id != session.owner_id:
                found[index] = None
            elif reader.has_room and current.change == reader.state.change:
                found[index] = EventBatch(current, reader.events, reader.cursor, reader.more)
            if index in found or (reader is not None and not reader.has_room):
                del asked[index]
        if not asked:
            return found
    for index, (session, cursor) in asked.items():
        found[index] = EventBatch(session, [], cursor, more=True)
    return found


def _read_state(session: Session) -> SessionState | None:
    return read_states(bridge.database(), [session.pk]).get(session.pk)


def _cursor_at(session: UUID, state: SessionState) -> Cursor:
    ends = sorted(state.ends.items(), key=lambda item: item[1].id)
    positions = {agent: MessagePosition(end.position, end.revision) for agent, end in ends}
    return Cursor(session, state.change, positions)


@dataclass(frozen=True, slots=True)
class _Ranges:
    """A reader needs the messages at ranges of positions."""

    ranges: list[MessageRange]


@dataclass(frozen=True, slots=True)
class _Previews:
    """A reader needs messages without their payloads."""

    keys: frozenset[UUID]


@dataclass(frozen=True, slots=True)
class _Payloads:
    """A reader needs the payloads of messages, which fit into a page."""

    rows: list[MessagePreview]


_Need = _Ranges | _Previews | _Payloads
_Steps = Generator[_Need, Any, bool]


def _run(readers: Iterable[_Reader]) -> None:
    """Run readers until each has a batch, or has no room beside the others."""
    room = message_pages.MAX_PAGE_BYTES
    needs = {reader: need for reader in readers if (need := reader.go_on(None)) is not None}
    is_first = True
    while needs:
        ranges = messages_at(
            [each for need in needs.values() if isinstance(need, _Ranges) for each in need.ranges]
        )
        previews = _previews(
            [key for need in needs.values() if isinstance(need, _Previews) for key in need.keys]
        )
        rows: list[MessagePreview] = []
        for reader, need in needs.items():
            if isinstance(need, _Payloads):
                size = sum(map(_size_shown, need.rows))
                if size <= room or is_first:
                    room -= size
                    rows += need.rows
                    is_first = False
                else:
                    reader.has_room = False
        payloads = _payloads(rows)
        following = {}
        for reader, need in needs.items():
            if isinstance(need, _Ranges):
                answer: Any = {each[0]: ranges[each] for each in need.ranges}
            elif isinstance(need, _Previews):
                answer = {key: previews[key] for key in need.keys if key in previews}
            elif reader.has_room:
                answer = {row.id: payloads[row.id] for row in need.rows if row.id in payloads}
            else:
                continue
            if (next_need := reader.go_on(answer)) is not None:
                following[reader] = next_need
        needs = following


def _previews(keys: list[UUID]) -> dict[UUID, MessagePreview]:
    found: dict[UUID, MessagePreview] = {}
    for first in range(0, len(keys), _SCAN_SIZE):
        part = frozenset(keys[first : first + _SCAN_SIZE])
        query = message_pages.MessageQuery(None, only=part, eager=True)
        rows = message_pages.first_page(query, count=len(part)).rows
        found.update((row.id, row) for row in rows)
    return found


def _payloads(rows: list[MessagePreview]) -> dict[UUID, MessagePreview]:
    if not rows:
        return {}
    # The same row may be wanted after two cursors.
    distinct = list({row.id: row for row in rows}.values())
    query = message_pages.MessageQuery(None, only=frozenset(row.id for row in distinct))
    message_pages.read_payloads(query, distinct)
    return {row.id: row for row in distinct}


def _size_shown(row: MessagePreview) -> int:
    return row.size if row.size <= message_pages.MAX_PAYLOAD_BYTES_SHOWN else 0


class _Reader:
    """One attempt to read a batch of one session.

    First what was removed, then redactions, feedback, the session's header, then new messages. The
    cursor gets the session's change number with the last event before the new messages.
    """

    def __init__(self, state: SessionState, cursor: Cursor, count: int) -> None:
        self.state = state
        self.events: list[Event] = []
        self.cursor = cursor
        self.more = False
        self.has_room = True
        """Whether the payloads of its events had room beside those of others."""
        self._session = cursor.session
        self._count = count
        self._steps = self._read()

    def go_on(self, answer: Any) -> _Need | None:
        """Continue with what was needed; return what is needed next, or None at the end."""
        try:
            return self._steps.send(answer)
        except StopIteration as end:
            self.more = end.value
            return None

    def _read(self) -> _Steps:
        """Read events; the result is whether there are more."""
        known = self._known_cursor()
        if known is None:
            return False
        self.cursor = known
        more = yield from self._add_events()
        return more and self.cursor != known

    def _known_cursor(self) -> Cursor | None:
        """Return the cursor with all agents; None if the client has to read the session again."""
        ends = {
            agent: MessagePosition(end.position, end.revision)
            for agent, end in self.state.ends.items()
        }
        known = self.cursor.unfold(self.state.change, ends)
        if known is None:
            reason = Reason.MANY_AGENTS
        elif self.cursor.change > self.state.change:
            # A restored or imported session has an earlier change number.
            reason = Reason.CHANGE_NUMBER
        elif known.agents.keys() - self.state.agents:
            reason = Reason.AGENT_REMOVED
        else:
            return known
        self.cursor = _cursor_at(self._session, self.state)
        self.events.append(ResetEvent(self.cursor, reason))
        return None

    def _add_events(self) -> _Steps:
        self._add_removals()
        since = self.cursor.change
        if self.state.redaction_change > since and (yield from self._add_redactions()):
            return True
        before, has_header = self.cursor, self.state.header_change > since
        self.cursor = replace(self.cursor, change=self.state.change, redaction=None)
        if self.state.feedback_change > since:
            # If the header follows, it must not be skipped when the connection breaks in between.
            self.events.append(FeedbackEvent(before if has_header else self.cursor))
        if has_header:
            self.events.append(SessionEvent(self.cursor))
        return (yield from self._add_ends())

    # --- removed messages --------------------------------------------------------------------

    def _add_removals(self) -> None:
        ends, sent = self.state.ends, self.cursor.agents
        intact = {agent: min(sent[agent].position, self._end(agent)) for agent in sent}
        if self.state.change != self.cursor.change:
            unchanged = positions_unchanged_since(self.cursor.change, sent.keys() & ends.keys())
            intact = {agent: min(at, unchanged.get(agent, -1)) for agent, at in intact.items()}
        for agent, position in intact.items():
            if position < sent[agent].position:
                self._remove(agent, position)

    def _end(self, agent: UUID) -> int:
        end = self.state.ends.get(agent)
        return -1 if end is None else end.position

    def _remove(self, agent: UUID, intact: int) -> None:
        """Add the event for the messages after a position."""
        self.cursor = self.cursor.with_agent(agent, last_message_upto(agent, intact))
        self.events.append(RemovedEvent(self.cursor, agent, intact + 1))

    # --- redactions --------------------------------------------------------------------------

    def _add_redactions(self) -> _Steps:
        """Add events for unsent redactions; return whether there are more."""
        steps: list[_Step] = []
        scanned = self.cursor.redaction
        complete = False
        while len(steps) < self._count and not complete:
            batch = self._redactions_after(scanned)
            complete = len(batch) < _SCAN_SIZE
            for agent, position, key, change in batch:
                scanned = RedactionPosition(change, key)
                if position <= self.cursor.position(agent):
                    steps.append(_Step(agent, key, position, Change.REDACTED, scanned))
                if len(steps) == self._count:
                    complete = False
                    break
        if (yield from self._add_messages(steps)):
            return True
        if not complete:
            # Skipped redactions are not scanned again.
            self.cursor = replace(self.cursor, redaction=scanned)
        return not complete

    def _redactions_after(self, scanned: RedactionPosition | None) -> list[Any]:
        rows = redacted_messages(self._session)
        if scanned is None:
            rows = rows.filter(redaction_change__gt=self.cursor.change)
        else:
            change, key = scanned
            rows = rows.filter(
                Q(redaction_change__gt=change) | Q(redaction_change=change, pk__gt=key)
            )
        columns = rows.values_list("agent_id", "message_id", "pk", "redaction_change")
        return list(columns[:_SCAN_SIZE])

    # --- the ends of conversations -----------------------------------------------------------

    def _add_ends(self) -> _Steps:
        """Add events for new and changed last messages; return whether there are more."""
        changed = [agent for agent in self.state.ends if self._has_changed(agent)]
        if not changed:
            return False
        # If there are many agents, those with older last messages come first.
        changed.sort(key=lambda agent: self.state.ends[agent].id)
        ranges = [
            (agent, at := max(0, self.cursor.position(agent)), at + self._count)
            for agent in changed[:MAX_AGENTS_PER_STATEMENT]
        ]
        rows: dict[UUID, list[MessageVersion]] = yield _Ranges(ranges)
        # Each conversation in order of its positions; merged in order of the keys' times.
        steps_by_agent = [list(self._end_steps(agent, rows[agent])) for agent in rows]
        steps = list(islice(heapq.merge(*steps_by_agent, key=lambda step: step.id), self._count))
        return (yield from self._add_messages(steps)) or any(map(self._has_changed, changed))

    def _has_changed(self, agent: UUID) -> bool:
        end = self.state.ends[agent]
        return self.cursor.agents.get(agent) != (end.position, end.revision)

    def _end_steps(self, agent: UUID, rows: list[MessageVersion]) -> Iterator[_Step]:
        sent, last = self.cursor.agents.get(agent), self.cursor.position(agent)
        for row in rows:
            if sent is not None and row.position == last and row.revision != sent.revision:
                yield _Step(agent, row.id, row.position, Change.CHANGED)
        later = [row for row in rows if row.position > last]
        if not later and self.state.ends[agent].position > last:
            # There is a gap in the positions.
            later = messages_after(agent, last, self._count)
        for row in later:
            yield _Step(agent, row.id, row.position, Change.NEW)

    # --- making events -----------------------------------------------------------------------

    def _add_messages(self, steps: list[_Step]) -> _Steps:
        """Add the events of steps; return whether some are left for the next batch."""
        if not steps:
            return False
        previews: dict[UUID, MessagePreview] = yield _Previews(frozenset(step.id for step in steps))
        sent = list(_steps_that_fit(steps, previews))
        rows = list({step.id: previews[step.id] for step in sent}.values())
        read: dict[UUID, MessagePreview] = yield _Payloads(rows)
        for step in sent:
            if step.id not in read:
                # Deleted meanwhile.
                return True
            self.events.append(self._event(step, read[step.id]))
        return len(sent) < len(steps)

    def _event(self, step: _Step, row: MessagePreview) -> MessageEvent:
        if step.change is Change.NEW or step.position == self.cursor.position(step.agent):
            last = MessagePosition(step.position, row.revision)
            self.cursor = self.cursor.with_agent(step.agent, last)
        if step.redaction is not None:
            self.cursor = replace(self.cursor, redaction=step.redaction)
        return MessageEvent(self.cursor, row, step.change)


def _steps_that_fit(steps: list[_Step], previews: Mapping[UUID, MessagePreview]) -> Iterator[_Step]:
    """Yield the steps that fit into a batch, up to the first message that was deleted."""
    room = message_pages.MAX_PAGE_BYTES
    for step in steps:
        row = previews.get(step.id)
        if row is None:
            return
        room -= _size_shown(row)
        if room < 0:
            return
        yield step
