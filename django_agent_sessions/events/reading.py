"""Read the events after a cursor, in batches that are the same for all viewers of a session."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
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
    MessageEvent,
    Reason,
    RemovedEvent,
    ResetEvent,
    SessionEvent,
)
from .session_states import (
    MAX_AGENTS_PER_STATEMENT,
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
    return None if state is None else _cursor_at(session, state)


def read_events(
    session: Session, cursor: Cursor, *, count: int = EVENTS_PER_BATCH
) -> EventBatch | None:
    """Read the events after a cursor; None if the session was deleted or has another owner.

    All events are as of one change number: if it increases between two statements, the batch is
    read again.
    """
    for _ in range(_TRIES):
        state = _read_state(session)
        if state is None:
            return None
        events, after, more = _events_after(session, state, cursor, count)
        current = Session.objects.using(bridge.database()).filter(pk=session.pk).first()
        if current is None or current.owner_id != session.owner_id:
            return None
        if current.change == state.change:
            return EventBatch(current, events, after, more)
    return EventBatch(session, [], cursor, more=True)


def _read_state(session: Session) -> SessionState | None:
    return read_states(bridge.database(), [session.pk]).get(session.pk)


def _cursor_at(session: Session, state: SessionState) -> Cursor:
    ends = sorted(state.ends.items(), key=lambda item: item[1].id)
    positions = {agent: MessagePosition(end.position, end.revision) for agent, end in ends}
    return Cursor(session.pk, state.change, positions)


def _events_after(
    session: Session, state: SessionState, cursor: Cursor, count: int
) -> tuple[list[Event], Cursor, bool]:
    """Return events, the cursor after them, and whether there are more."""
    ends = sorted(state.ends.items(), key=lambda item: item[1].id)
    known = cursor.unfold(
        state.change, {key: MessagePosition(end.position, end.revision) for key, end in ends}
    )
    reason = None
    if known is None:
        reason = Reason.MANY_AGENTS
    elif cursor.change > state.change:
        # A restored or imported session has an earlier change number.
        reason = Reason.CHANGE_NUMBER
    elif known.agents.keys() - state.agents:
        reason = Reason.AGENT_REMOVED
    if known is None or reason is not None:
        after = _cursor_at(session, state)
        return [ResetEvent(after, reason or Reason.MANY_AGENTS)], after, False
    reader = _Reader(session, state, known, count)
    more = reader.read()
    return reader.events, reader.cursor, more and reader.cursor != known


class _Reader:
    """One attempt to read a batch.

    First what was removed, then redactions, then the session's header, then new messages. The
    cursor gets the session's change number after the header, when nothing else is left of it.
    """

    def __init__(self, session: Session, state: SessionState, cursor: Cursor, count: int) -> None:
        self.events: list[Event] = []
        self.cursor = cursor
        self._session = session
        self._state = state
        self._count = count

    def read(self) -> bool:
        """Read events; return whether there are more."""
        self._add_removals()
        since = self.cursor.change
        if self._state.redaction_change > since and self._add_redactions():
            return True
        self.cursor = replace(self.cursor, change=self._state.change, redaction=None)
        if self._state.header_change > since:
            self.events.append(SessionEvent(self.cursor))
        return self._add_ends()

    # --- removed messages --------------------------------------------------------------------

    def _add_removals(self) -> None:
        ends, sent = self._state.ends, self.cursor.agents
        intact = {agent: min(sent[agent].position, self._end(agent)) for agent in sent}
        if self._state.change != self.cursor.change:
            unchanged = positions_unchanged_since(self.cursor.change, sent.keys() & ends.keys())
            intact = {agent: min(at, unchanged.get(agent, -1)) for agent, at in intact.items()}
        for agent, position in intact.items():
            if position < sent[agent].position:
                self._remove(agent, position)

    def _end(self, agent: UUID) -> int:
        end = self._state.ends.get(agent)
        return -1 if end is None else end.position

    def _remove(self, agent: UUID, intact: int) -> None:
        """Add the event for the messages after a position."""
        self.cursor = self.cursor.with_agent(agent, last_message_upto(agent, intact))
        self.events.append(RemovedEvent(self.cursor, agent, intact + 1))

    # --- redactions --------------------------------------------------------------------------

    def _add_redactions(self) -> bool:
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
        if self._add_messages(steps):
            return True
        if not complete:
            # Skipped redactions are not scanned again.
            self.cursor = replace(self.cursor, redaction=scanned)
        return not complete

    def _redactions_after(self, scanned: RedactionPosition | None) -> list[Any]:
        rows = redacted_messages(self._session.pk)
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

    def _add_ends(self) -> bool:
        """Add events for new and changed last messages; return whether there are more."""
        changed = [agent for agent in self._state.ends if self._has_changed(agent)]
        # If there are many agents, those with older last messages come first.
        changed.sort(key=lambda agent: self._state.ends[agent].id)
        first_positions = {
            agent: max(0, self.cursor.position(agent))
            for agent in changed[:MAX_AGENTS_PER_STATEMENT]
        }
        rows = messages_at({key: (at, at + self._count) for key, at in first_positions.items()})
        # Each conversation in order of its positions; merged in order of the keys' times.
        steps_by_agent = [list(self._end_steps(agent, rows[agent])) for agent in first_positions]
        steps = list(islice(heapq.merge(*steps_by_agent, key=lambda step: step.id), self._count))
        return self._add_messages(steps) or any(map(self._has_changed, changed))

    def _has_changed(self, agent: UUID) -> bool:
        end = self._state.ends[agent]
        return self.cursor.agents.get(agent) != (end.position, end.revision)

    def _end_steps(self, agent: UUID, rows: list[MessageVersion]) -> Iterator[_Step]:
        sent, last = self.cursor.agents.get(agent), self.cursor.position(agent)
        for row in rows:
            if sent is not None and row.position == last and row.revision != sent.revision:
                yield _Step(agent, row.id, row.position, Change.CHANGED)
        later = [row for row in rows if row.position > last]
        if not later and self._state.ends[agent].position > last:
            # There is a gap in the positions.
            later = messages_after(agent, last, self._count)
        for row in later:
            yield _Step(agent, row.id, row.position, Change.NEW)

    # --- making events -----------------------------------------------------------------------

    def _add_messages(self, steps: list[_Step]) -> bool:
        """Add the events of steps; return whether some are left for the next batch."""
        keys = frozenset(step.id for step in steps)
        if not keys:
            return False
        scope = message_pages.MessageQuery(self._session, only=keys)
        rows = message_pages.first_page(scope, count=len(keys)).rows
        sizes = {row.id: row.size for row in rows}
        sent = list(_steps_that_fit(steps, sizes))
        sent_keys = {step.id for step in sent}
        rows = [row for row in rows if row.id in sent_keys]
        message_pages.read_payloads(scope, rows)
        read = {row.id: row for row in rows}
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


def _steps_that_fit(steps: list[_Step], sizes: dict[UUID, int]) -> Iterator[_Step]:
    """Yield the steps that fit into a batch, up to the first message that was deleted."""
    room = message_pages.MAX_PAGE_BYTES
    for step in steps:
        size = sizes.get(step.id)
        if size is None:
            return
        room -= size if size <= message_pages.MAX_PAYLOAD_BYTES_SHOWN else 0
        if room < 0:
            return
        yield step
