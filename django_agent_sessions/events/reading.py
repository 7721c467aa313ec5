"""Read the events after a cursor, in batches that are the same for all viewers of a session."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any
from uuid import UUID

from django.db.models import Q

from django_agent_sessions.db import bridge
from django_agent_sessions.models import Session
from django_agent_sessions.queries import message_pages
from django_agent_sessions.queries.message_pages import MessagePreview
from django_agent_sessions.values.message_version import MessageVersion

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
    (batch,) = read_batches([(session, cursor)], count=count)
    return batch


def read_batches(
    asked: Sequence[tuple[Session, Cursor]], *, count: int = EVENTS_PER_BATCH
) -> Iterator[EventBatch | None]:
    """Read the events after cursors of several sessions; yield the batches in the same order.

    A batch is None if the session was deleted or has another owner. Its events are as of one change
    number: if it increases between two statements, the batch is read again. At any time, the
    payloads of all sessions together have the size of a page; for what has no room, ``more`` is
    true.
    """
    for first in range(0, len(asked), _SESSIONS_PER_PART):
        waiting = dict(enumerate(asked[first : first + _SESSIONS_PER_PART]))
        found: dict[int, EventBatch | None] = {}
        for _ in range(_TRIES):
            if left := {number: waiting[number] for number in waiting if number not in found}:
                found |= _read_together(left, count)
        for number, (session, cursor) in waiting.items():
            yield found.get(number, EventBatch(session, [], cursor, more=True))


def _read_together(
    asked: dict[int, tuple[Session, Cursor]], count: int
) -> dict[int, EventBatch | None]:
    """Read batches; those are missing whose session was changed meanwhile."""
    using = bridge.database()
    states = read_states(using, {session.pk for session, _ in asked.values()})
    room = _Room()
    readers = {
        number: _Reader(states[session.pk], cursor, count, room)
        for number, (session, cursor) in asked.items()
        if session.pk in states
    }
    ranges = [each for reader in readers.values() for each in reader.read_changes()]
    rows = messages_at(ranges)
    for reader in readers.values():
        reader.choose_messages(rows)
    previews = _read_previews([key for reader in readers.values() for key in reader.chosen])
    for reader in readers.values():
        reader.add_messages(previews)
    keys = {session.pk for session, _ in asked.values()}
    current = Session.objects.using(using).defer("metadata", "origin").in_bulk(keys)
    found: dict[int, EventBatch | None] = {}
    for number, (session, _) in asked.items():
        row = current.get(session.pk)
        if number not in readers or row is None or row.owner_id != session.owner_id:
            found[number] = None
        elif row.change == readers[number].state.change:
            found[number] = readers[number].batch(row)
    return found


def _read_state(session: Session) -> SessionState | None:
    return read_states(bridge.database(), [session.pk]).get(session.pk)


def _cursor_at(session: UUID, state: SessionState) -> Cursor:
    ends = sorted(state.ends.items(), key=lambda item: item[1].id)
    positions = {agent: MessagePosition(end.position, end.revision) for agent, end in ends}
    return Cursor(session, state.change, positions)


class _Room:
    """The bytes that payloads may still take, of all sessions that are read together."""

    def __init__(self) -> None:
        self.left = message_pages.MAX_PAGE_BYTES

    def take(self, size: int) -> bool:
        """Return whether there is room; the first message always has some."""
        if size > self.left:
            return False
        self.left -= size
        return True


class _Reader:
    """One attempt to read a batch of one session.

    First what was removed, then redactions, feedback, the session's header, then new messages. The
    cursor gets the session's change number with the last event before the new messages.
    """

    def __init__(self, state: SessionState, cursor: Cursor, count: int, room: _Room) -> None:
        self.state = state
        self.events: list[Event] = []
        self.cursor = cursor
        self.more = False
        self.chosen: list[UUID] = []
        """The keys of the new and changed messages to send."""
        self._session = cursor.session
        self._count = count
        self._room = room
        self._waits_for_room = False
        self._known = cursor
        self._changed: list[UUID] = []

    # --- what is read together ---------------------------------------------------------------

    def read_changes(self) -> list[MessageRange]:
        """Add all events before the new messages; return where these are."""
        known = self._known_cursor()
        if known is None:
            return []
        self.cursor = self._known = known
        self._add_removals()
        since = self.cursor.change
        if self.state.redaction_change > since and self._add_redactions():
            self.more = True
            return []
        before, has_header = self.cursor, self.state.header_change > since
        self.cursor = replace(self.cursor, change=self.state.change, redaction=None)
        if self.state.feedback_change > since:
            # If the header follows, it must not be skipped when the connection breaks in between.
            self.events.append(FeedbackEvent(before if has_header else self.cursor))
        if has_header:
            self.events.append(SessionEvent(self.cursor))
        self._changed = [agent for agent in self.state.ends if self._has_changed(agent)]
        # If there are many agents, those with older last messages come first.
        self._changed.sort(key=lambda agent: self.state.ends[agent].id)
        return self._ranges()

    def choose_messages(self, rows: Mapping[MessageRange, list[MessageVersion]]) -> None:
        """Choose the new and changed messages to send."""
        # Each conversation in order of its positions; merged in order of the keys' times.
        keys = [list(self._end_keys(each[0], rows[each])) for each in self._ranges()]
        self.chosen = list(islice(heapq.merge(*keys), self._count))

    def add_messages(self, previews: Mapping[UUID, MessagePreview]) -> None:
        """Add the events of the chosen messages."""
        is_left = self._add_messages(self.chosen, previews)
        is_left = is_left or self.more or any(map(self._has_changed, self._changed))
        self.more = is_left and (self.cursor != self._known or self._waits_for_room)

    def batch(self, session: Session) -> EventBatch:
        """Return what was read of a session."""
        return EventBatch(session, self.events, self.cursor, self.more)

    def _ranges(self) -> list[MessageRange]:
        positions = {agent: max(0, self.cursor.position(agent)) for agent in self._changed}
        return [
            (agent, positions[agent], positions[agent] + self._count)
            for agent in self._changed[:MAX_AGENTS_PER_STATEMENT]
        ]

    # --- the cursor --------------------------------------------------------------------------

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

    def _add_redactions(self) -> bool:
        """Add events for unsent redactions; return whether there are more."""
        found: dict[UUID, RedactionPosition] = {}
        scanned = self.cursor.redaction
        complete = False
        while len(found) < self._count and not complete:
            batch = self._redactions_after(scanned)
            complete = len(batch) < _SCAN_SIZE
            for agent, position, key, change in batch:
                scanned = RedactionPosition(change, key)
                if position <= self.cursor.position(agent):
                    found[key] = scanned
                if len(found) == self._count:
                    complete = False
                    break
        if self._add_messages([*found], _read_previews([*found]), found):
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

    def _has_changed(self, agent: UUID) -> bool:
        end = self.state.ends[agent]
        return self.cursor.agents.get(agent) != (end.position, end.revision)

    def _end_keys(self, agent: UUID, rows: list[MessageVersion]) -> Iterator[UUID]:
        sent, last = self.cursor.agents.get(agent), self.cursor.position(agent)
        for row in rows:
            if sent is not None and row.position == last and row.revision != sent.revision:
                yield row.id
        later = [row for row in rows if row.position > last]
        if not later and self.state.ends[agent].position > last:
            # There is a gap in the positions.
            later = messages_after(agent, last, self._count)
        yield from (row.id for row in later)

    # --- making events -----------------------------------------------------------------------

    def _add_messages(
        self,
        keys: Sequence[UUID],
        previews: Mapping[UUID, MessagePreview],
        redactions: Mapping[UUID, RedactionPosition] | None = None,
    ) -> bool:
        """Add the events of messages; return whether some are left for the next batch."""
        fitting = list(self._rows_that_fit(keys, previews))
        rows = [*fitting]
        message_pages.read_payloads(_query(row.id for row in rows), rows)
        read = {row.id for row in rows}
        for row in fitting:
            if row.id not in read:
                # Deleted meanwhile.
                return True
            self.events.append(self._event(row, (redactions or {}).get(row.id)))
        return len(fitting) < len(keys)

    def _rows_that_fit(
        self, keys: Sequence[UUID], previews: Mapping[UUID, MessagePreview]
    ) -> Iterator[MessagePreview]:
        """Yield the messages that have room, up to the first one that was deleted."""
        for key in keys:
            row = previews.get(key)
            if row is None:
                return
            if not self._room.take(_size_shown(row)):
                self._waits_for_room = True
                return
            yield row

    def _event(self, row: MessagePreview, redaction: RedactionPosition | None) -> MessageEvent:
        sent = self.cursor.position(row.agent_id)
        change = Change.NEW if row.message_id > sent else Change.CHANGED
        if row.message_id >= sent:
            last = MessagePosition(row.message_id, row.revision)
            self.cursor = self.cursor.with_agent(row.agent_id, last)
        if redaction is not None:
            change = Change.REDACTED
            self.cursor = replace(self.cursor, redaction=redaction)
        return MessageEvent(self.cursor, row, change)


def _query(keys: Iterable[UUID]) -> message_pages.MessageQuery:
    return message_pages.MessageQuery(None, only=frozenset(keys), eager=True)


def _read_previews(keys: list[UUID]) -> dict[UUID, MessagePreview]:
    """Read messages, with the payloads that are small."""
    found: dict[UUID, MessagePreview] = {}
    for first in range(0, len(keys), _SCAN_SIZE):
        part = set(keys[first : first + _SCAN_SIZE])
        rows = message_pages.first_page(_query(part), count=len(part)).rows
        found.update((row.id, row) for row in rows)
    return found


def _size_shown(row: MessagePreview) -> int:
    return row.size if row.size <= message_pages.MAX_PAYLOAD_BYTES_SHOWN else 0
