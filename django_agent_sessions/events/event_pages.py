"""Read the events after a cursor, in pages."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from uuid import UUID

from django.db.models import Q

from django_agent_sessions.db import bridge
from django_agent_sessions.models import Session
from django_agent_sessions.queries import message_pages
from django_agent_sessions.queries.message_pages import MessagePreview

from .cursor import (
    MAX_NAMED_AGENTS,
    MAX_REDACTIONS,
    ROWS_PER_AGENT,
    AgentPosition,
    Cursor,
    RedactionScan,
    digest,
    digest_of_head,
    position_after,
)
from .event_types import (
    Change,
    Event,
    EventPage,
    MessageEvent,
    Reason,
    RemovedEvent,
    ResetEvent,
    SessionEvent,
)
from .row_versions import (
    MAX_AGENTS_PER_STATEMENT,
    RowVersions,
    messages,
    rows_at_positions,
    rows_from_position,
)
from .session_states import SessionState, read_states

EVENTS_PER_PAGE = 50
"""Maximum number of events per page."""

_TRIES = 5
_SCAN_SIZE = 500


@dataclass(frozen=True, slots=True)
class _Step:
    """A message to send, or the deletion of messages from a position on."""

    agent: UUID
    id: UUID
    position: int
    change: Change | None
    scanned: Cursor | None = None
    """The cursor of the scan of redactions, if the step belongs to one."""


def first_cursor(session: Session) -> Cursor | None:
    """Return a cursor before all messages; None if the session was deleted."""
    using = bridge.database()
    state = read_states(using, [session.pk]).get(session.pk)
    if state is None:
        return None
    redactions: list[UUID | None] = []
    if state.epoch:
        redacted = messages(session).filter(redaction__isnull=False)
        newest = redacted.order_by("-redaction").values_list("redaction", flat=True)
        redactions = list(newest.distinct()[:MAX_REDACTIONS])
    return Cursor(
        session=digest(session.pk),
        epoch=state.epoch,
        head=digest_of_head(state.head),
        agents={},
        redactions=tuple(sorted(key for key in redactions if key is not None)),
    )


def current_cursor(session: Session) -> Cursor | None:
    """Return a cursor after all messages; None if the session was deleted."""
    cursor = first_cursor(session)
    # After reading the redactions: a redaction in between is sent, and none is skipped.
    state = read_states(bridge.database(), [session.pk]).get(session.pk)
    if cursor is None or state is None:
        return None
    tails = [(agent, tail) for agent, tail in state.tails.items() if tail is not None]
    tails.sort(key=lambda item: item[1].id)
    places = {digest(agent): position_after(tail) for agent, tail in tails}
    # More rows for the agents that are named in the cursor's text.
    last = {
        agent: (max(0, tail.position + 1 - ROWS_PER_AGENT), tail.position)
        for agent, tail in tails[-MAX_NAMED_AGENTS:]
    }
    for agent, rows in rows_at_positions(last).items():
        place = AgentPosition(-1, (), places[digest(agent)].first)
        for position, revision, key in rows:
            place = place.after_row(position, revision, key)
        if place.rows:
            places[digest(agent)] = place
    return replace(cursor, agents=places)


def read_page(
    session: Session, cursor: Cursor, *, count: int = EVENTS_PER_PAGE
) -> EventPage | None:
    """Read the events after a cursor; None if the session was deleted or has another owner."""
    using = bridge.database()
    page = None
    for _ in range(_TRIES):
        state = read_states(using, [session.pk]).get(session.pk)
        if state is None:
            return None
        unfolded = cursor.unfold(state.tails)
        if unfolded is None:
            return _reset(session, Reason.MANY_AGENTS)
        if unfolded.agents.keys() - {digest(agent) for agent in state.tails}:
            return _reset(session, Reason.AGENT_REMOVED)
        page = _PageReader(session, state, unfolded, count).page()
        # A redaction increments the epoch in its transaction. If it is unchanged, no redaction
        # was committed between the statements of this page.
        rows = Session.objects.using(using).filter(pk=session.pk)
        current = rows.values_list("redaction_epoch", "owner_id").first()
        if current is None or current[1] != session.owner_id:
            return None
        if current[0] == state.epoch:
            break
    return page


def _reset(session: Session, reason: Reason) -> EventPage | None:
    """Return a reset event with the cursor after everything that exists."""
    cursor = current_cursor(session)
    return None if cursor is None else EventPage([ResetEvent(cursor, reason)], cursor, more=False)


class _PageReader:
    """One attempt to read a page."""

    def __init__(self, session: Session, state: SessionState, cursor: Cursor, count: int) -> None:
        self._session = session
        self._state = state
        self._cursor = cursor
        self._count = count
        self._epoch = state.epoch
        self._events: list[Event] = []

    def page(self) -> EventPage:
        start = self._cursor
        head = digest_of_head(self._state.head)
        if head != self._cursor.head:
            self._cursor = replace(self._cursor, head=head)
            self._events.append(SessionEvent(self._cursor, self._state.head))
        more = self._add_redactions() or self._add_ends()
        return EventPage(self._events, self._cursor, more and self._cursor != start)

    # --- redactions --------------------------------------------------------------------------

    def _add_redactions(self) -> bool:
        """Add events for unsent redactions; return whether there are more."""
        if self._state.epoch == self._cursor.epoch:
            return False
        steps: list[_Step] = []
        scanned = self._cursor
        current: UUID | None = None
        if scanned.redaction_scan is not None:
            current, self._epoch = scanned.redaction_scan.redaction, scanned.redaction_scan.epoch
        complete = False
        while len(steps) < self._count and not complete:
            batch = list(self._redacted_rows(scanned))
            complete = len(batch) < _SCAN_SIZE
            for redaction, key, agent, position, revision in batch:
                if current is not None and redaction != current:
                    scanned = scanned.with_redaction(current)
                current = redaction
                scanned = replace(
                    scanned, redaction_scan=RedactionScan(redaction, key, self._epoch)
                )
                if self._was_sent(agent, position, key, revision):
                    steps.append(_Step(agent, key, position, Change.REDACTED, scanned))
                if len(steps) == self._count:
                    break
        complete = complete and len(steps) < self._count
        has_more = self._add_events(steps)
        if has_more:
            return True
        # Skipped redactions are not scanned again.
        if complete and current is not None:
            scanned = scanned.with_redaction(current)
        self._cursor = replace(
            self._cursor,
            redactions=scanned.redactions,
            redaction_scan=None if complete else scanned.redaction_scan,
            epoch=self._epoch if complete else self._cursor.epoch,
        )
        # A redaction from after the start of the scan may have a smaller key (clock differences).
        return not complete or self._epoch != self._state.epoch

    def _redacted_rows(self, cursor: Cursor) -> Iterable[tuple[UUID, UUID, UUID, int, int]]:
        rows = messages(self._session).exclude(redaction__in=cursor.redactions)
        scan = cursor.redaction_scan
        if scan is None:
            rows = rows.filter(redaction__gte=self._cursor.oldest_redaction)
        else:
            later = Q(redaction__gt=scan.redaction) | Q(
                redaction=scan.redaction, pk__gt=scan.message
            )
            rows = rows.filter(later)
        columns = ("redaction", "pk", "agent_id", "message_id", "revision")
        return rows.order_by("redaction", "pk").values_list(*columns)[:_SCAN_SIZE]

    def _was_sent(self, agent: UUID, position: int, key: UUID, revision: int) -> bool:
        """Return whether a message was sent in an earlier version."""
        place = self._cursor.agents.get(digest(agent))
        if place is None or position > place.position:
            return False
        if position < place.position:
            return True
        return digest(key) == place.rows[0][1] and revision != place.rows[0][0]

    # --- the ends of conversations -----------------------------------------------------------

    def _add_ends(self) -> bool:
        """Add events for changes at the ends of conversations; return whether there are more."""
        changed = [agent for agent in self._state.tails if self._has_changed(agent)]
        # If there are many agents, those with older last messages come first.
        changed.sort(key=self._last_key)
        first_positions = {
            agent: max(0, self._place(agent).position + 1 - ROWS_PER_AGENT)
            for agent in changed[:MAX_AGENTS_PER_STATEMENT]
        }
        length = self._count + ROWS_PER_AGENT
        rows = rows_at_positions({key: (at, at + length) for key, at in first_positions.items()})
        # Each conversation in order of its positions; merged in order of the keys' times.
        steps_by_agent = [list(self._end_steps(agent, rows[agent])) for agent in first_positions]
        steps = list(islice(heapq.merge(*steps_by_agent, key=lambda step: step.id), self._count))
        return self._add_events(steps) or any(map(self._has_changed, changed))

    def _last_key(self, agent: UUID) -> UUID:
        tail = self._state.tails[agent]
        return UUID(int=0) if tail is None else tail.id

    def _place(self, agent: UUID) -> AgentPosition:
        return self._cursor.agents.get(digest(agent)) or AgentPosition(-1, ())

    def _has_changed(self, agent: UUID) -> bool:
        tail, place = self._state.tails[agent], self._cursor.agents.get(digest(agent))
        if tail is None or place is None:
            return tail is not None or place is not None
        sent = (place.first, place.position, *place.rows[0])
        return sent != (digest(tail.first), tail.position, tail.revision, digest(tail.id))

    def _end_steps(self, agent: UUID, rows: RowVersions) -> Iterator[_Step]:
        place, tail = self._place(agent), self._state.tails[agent]
        rows_by_position = {position: (revision, digest(key)) for position, revision, key in rows}
        intact = place.position
        if place.rows:
            row = rows_by_position.get(intact)
            same_branch = tail is None or digest(tail.first) == place.first
            if not same_branch or row is None or row[1] != place.rows[0][1]:
                intact = self._last_intact_position(place, rows_by_position) if same_branch else -1
                yield _Step(agent, UUID(int=0), intact + 1, None)
                if intact < 0:
                    rows = rows_from_position(self._session, agent, 0, self._count)
            elif row[0] != place.rows[0][0]:
                key = next(key for position, _, key in rows if position == intact)
                yield _Step(agent, key, intact, Change.CHANGED)
        if tail is not None and tail.position > intact and not any(row[0] > intact for row in rows):
            # There is a gap in the positions.
            rows = rows_from_position(self._session, agent, intact + 1, self._count)
        for position, _, key in rows:
            if position > intact:
                yield _Step(agent, key, position, Change.NEW)

    def _last_intact_position(
        self, place: AgentPosition, rows_by_position: dict[int, tuple[int, str]]
    ) -> int:
        """Return the last position that is still as it was sent; -1 if none is known."""
        for index, row in enumerate(place.rows[1:], 1):
            if rows_by_position.get(place.position - index) == row:
                return place.position - index
        return -1

    # --- making events -----------------------------------------------------------------------

    def _add_events(self, steps: list[_Step]) -> bool:
        """Add the events of steps; return whether some are left for the next page."""
        keys = frozenset(step.id for step in steps if step.change is not None)
        rows: dict[UUID, MessagePreview] = {}
        scope = message_pages.MessageQuery(self._session, only=keys)
        if keys:
            rows = {row.id: row for row in message_pages.first_page(scope, count=len(keys)).rows}
        sent = list(_steps_that_fit(steps, rows))
        sent_rows = [rows[step.id] for step in sent if step.id in rows]
        message_pages.read_payloads(scope, sent_rows)
        existing = {row.id for row in sent_rows}
        # The next page detects a message that was popped meanwhile.
        sent = list(takewhile(lambda step: step.change is None or step.id in existing, sent))
        for step in sent:
            self._events.append(self._event(step, rows))
        return len(sent) < len(steps)

    def _event(self, step: _Step, rows: dict[UUID, MessagePreview]) -> Event:
        agent, place = digest(step.agent), self._place(step.agent)
        if step.change is None:
            index = place.position - step.position + 1
            shortened = replace(place, position=step.position - 1, rows=place.rows[index:])
            self._cursor = self._cursor.with_agent(agent, shortened if step.position else None)
            return RemovedEvent(self._cursor, step.agent, step.position)
        row = rows[step.id]
        if step.change is Change.NEW:
            place = place.after_row(step.position, row.revision, row.id)
        else:
            place = place.with_revision(step.position, row.revision, row.id)
        self._cursor = self._cursor.with_agent(agent, place)
        if step.scanned is not None:
            # With the skipped redactions: their messages are sent in order of their positions.
            redactions, scan = step.scanned.redactions, step.scanned.redaction_scan
            self._cursor = replace(self._cursor, redactions=redactions, redaction_scan=scan)
        return MessageEvent(self._cursor, row, step.change)


def _steps_that_fit(steps: list[_Step], rows: dict[UUID, MessagePreview]) -> Iterator[_Step]:
    """Yield the steps that fit into a page, up to the first message that was deleted."""
    room = message_pages.MAX_PAGE_BYTES
    for step in steps:
        if step.change is not None:
            row = rows.get(step.id)
            if row is None:
                # Popped meanwhile; the next page detects it.
                return
            room -= row.size if row.size <= message_pages.MAX_PAYLOAD_BYTES_SHOWN else 0
            if room < 0:
                return
        yield step
