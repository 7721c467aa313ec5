"""What comes next for a stream: found from its cursor, in pages."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from uuid import UUID

from django.db.models import Q

from django_agent_sessions import bridge, windows
from django_agent_sessions.models import Session
from django_agent_sessions.windows import Row

from .cursor import AGENTS, REDACTIONS, ROWS, Cursor, Pass, Place, digest, digest_of_head, place_at
from .ends import TOGETHER, End, end, ends, messages
from .pages import Change, Event, MessageEvent, Page, Reason, RemovedEvent, ResetEvent, SessionEvent
from .states import State, states

PAGE = 50
"""Events of a page."""

_TRIES = 5
_SCANNED = 500


@dataclass(frozen=True, slots=True)
class _Step:
    """A message to tell of, or that messages from its position on are gone."""

    agent: UUID
    id: UUID
    position: int
    change: Change | None
    scanned: Cursor | None = None
    """How far redactions were looked through, if it is told for one of them."""


def beginning(session: Session) -> Cursor | None:
    """Gives the cursor of which nothing was told yet."""
    using = bridge.database()
    state = states(using, [session.pk]).get(session.pk)
    if state is None:
        return None
    found: list[UUID | None] = []
    if state.epoch:
        redacted = messages(session).filter(redaction__isnull=False)
        newest = redacted.order_by("-redaction").values_list("redaction", flat=True)
        found = list(newest.distinct()[:REDACTIONS])
    return Cursor(
        session=digest(session.pk),
        epoch=state.epoch,
        head=digest_of_head(state.head),
        agents={},
        redactions=tuple(sorted(key for key in found if key is not None)),
    )


def now(session: Session) -> Cursor | None:
    """Gives the cursor behind everything that is there."""
    cursor = beginning(session)
    # The redactions first: one that comes in between is told, and none is left out.
    state = states(bridge.database(), [session.pk]).get(session.pk)
    if cursor is None or state is None:
        return None
    tails = [(agent, tail) for agent, tail in state.tails.items() if tail is not None]
    tails.sort(key=lambda item: item[1].id)
    places = {digest(agent): place_at(tail) for agent, tail in tails}
    # Of those that go into a cursor's text, a few rows more.
    last = {
        agent: (max(0, tail.position + 1 - ROWS), tail.position) for agent, tail in tails[-AGENTS:]
    }
    for agent, rows in ends(last).items():
        place = Place(-1, (), places[digest(agent)].first)
        for position, revision, key in rows:
            place = place.then(position, revision, key)
        if place.rows:
            places[digest(agent)] = place
    return replace(cursor, agents=places)


def read(session: Session, cursor: Cursor, *, count: int = PAGE) -> Page | None:
    """Reads what comes after a cursor."""
    using = bridge.database()
    page = None
    for _ in range(_TRIES):
        state = states(using, [session.pk]).get(session.pk)
        if state is None:
            return None
        known = cursor.unfolded(state.tails)
        if known is None:
            return _reset(session, Reason.MANY_AGENTS)
        if known.agents.keys() - {digest(agent) for agent in state.tails}:
            return _reset(session, Reason.AGENT_REMOVED)
        page = _Reading(session, state, known, count).page()
        # A redaction moves the epoch in its own transaction: if it stood still, none came between
        # the statements of this page.
        rows = Session.objects.using(using).filter(pk=session.pk)
        after = rows.values_list("redaction_epoch", "owner_id").first()
        if after is None or after[1] != session.owner_id:
            return None
        if after[0] == state.epoch:
            break
    return page


def _reset(session: Session, reason: Reason) -> Page | None:
    """Goes on behind everything that is there, which the client reads when it is told so."""
    cursor = now(session)
    return None if cursor is None else Page([ResetEvent(cursor, reason)], cursor, more=False)


class _Reading:
    """One try to read a page."""

    def __init__(self, session: Session, state: State, cursor: Cursor, count: int) -> None:
        self._session = session
        self._state = state
        self._cursor = cursor
        self._count = count
        self._epoch = state.epoch
        self._events: list[Event] = []

    def page(self) -> Page:
        before = self._cursor
        head = digest_of_head(self._state.head)
        if head != self._cursor.head:
            self._cursor = replace(self._cursor, head=head)
            self._events.append(SessionEvent(self._cursor, self._state.head))
        more = self._tell_redactions() or self._tell_ends()
        return Page(self._events, self._cursor, more and self._cursor != before)

    # --- redactions --------------------------------------------------------------------------

    def _tell_redactions(self) -> bool:
        """Tells of redactions that were not told yet; returns whether there are more."""
        if self._state.epoch == self._cursor.epoch:
            return False
        steps: list[_Step] = []
        scanned = self._cursor
        last: UUID | None = None
        if scanned.under_way is not None:
            last, self._epoch = scanned.under_way.redaction, scanned.under_way.epoch
        ended = False
        while len(steps) < self._count and not ended:
            found = list(self._redacted(scanned))
            ended = len(found) < _SCANNED
            for redaction, key, agent, position, revision in found:
                if last is not None and redaction != last:
                    scanned = scanned.with_redaction(last)
                last = redaction
                scanned = replace(scanned, under_way=Pass(redaction, key, self._epoch))
                if self._was_told(agent, position, key, revision):
                    steps.append(_Step(agent, key, position, Change.REDACTED, scanned))
                if len(steps) == self._count:
                    break
        ended = ended and len(steps) < self._count
        cut = self._tell(steps)
        if cut:
            return True
        # What was passed over is not looked at again.
        if ended and last is not None:
            scanned = scanned.with_redaction(last)
        self._cursor = replace(
            self._cursor,
            redactions=scanned.redactions,
            under_way=None if ended else scanned.under_way,
            epoch=self._epoch if ended else self._cursor.epoch,
        )
        # What came since it began to look may have a smaller key, by another writer's clock.
        return not ended or self._epoch != self._state.epoch

    def _redacted(self, cursor: Cursor) -> Iterable[tuple[UUID, UUID, UUID, int, int]]:
        rows = messages(self._session).exclude(redaction__in=cursor.redactions)
        at = cursor.under_way
        if at is None:
            rows = rows.filter(redaction__gte=self._cursor.oldest_redaction)
        else:
            later = Q(redaction__gt=at.redaction) | Q(redaction=at.redaction, pk__gt=at.message)
            rows = rows.filter(later)
        columns = ("redaction", "pk", "agent_id", "message_id", "revision")
        return rows.order_by("redaction", "pk").values_list(*columns)[:_SCANNED]

    def _was_told(self, agent: UUID, position: int, key: UUID, revision: int) -> bool:
        """Tells whether a message was told as it was before; a later one comes in its turn."""
        place = self._cursor.agents.get(digest(agent))
        if place is None or position > place.position:
            return False
        if position < place.position:
            return True
        return digest(key) == place.rows[0][1] and revision != place.rows[0][0]

    # --- the ends of conversations -----------------------------------------------------------

    def _tell_ends(self) -> bool:
        """Tells what was added, grew or went at the ends; returns whether there is more."""
        moved = [agent for agent in self._state.tails if self._moved(agent)]
        # If there are many, those that spoke earlier come first, and are told to their ends.
        moved.sort(key=self._last)
        first = {
            agent: max(0, self._place(agent).position + 1 - ROWS) for agent in moved[:TOGETHER]
        }
        length = self._count + ROWS
        rows = ends({key: (at, at + length) for key, at in first.items()})
        # Each conversation in its own order; beside each other as their keys were made in time.
        found = [list(self._end(agent, rows[agent])) for agent in first]
        steps = list(islice(heapq.merge(*found, key=lambda step: step.id), self._count))
        return self._tell(steps) or any(map(self._moved, moved))

    def _last(self, agent: UUID) -> UUID:
        tail = self._state.tails[agent]
        return UUID(int=0) if tail is None else tail.id

    def _place(self, agent: UUID) -> Place:
        return self._cursor.agents.get(digest(agent)) or Place(-1, ())

    def _moved(self, agent: UUID) -> bool:
        tail, place = self._state.tails[agent], self._cursor.agents.get(digest(agent))
        if tail is None or place is None:
            return tail is not None or place is not None
        told = (place.first, place.position, *place.rows[0])
        return told != (digest(tail.first), tail.position, tail.revision, digest(tail.id))

    def _end(self, agent: UUID, rows: End) -> Iterator[_Step]:
        place, tail = self._place(agent), self._state.tails[agent]
        there = {position: (revision, digest(key)) for position, revision, key in rows}
        base = place.position
        if place.rows:
            row = there.get(base)
            same = tail is None or digest(tail.first) == place.first
            if not same or row is None or row[1] != place.rows[0][1]:
                base = self._intact(place, there) if same else -1
                yield _Step(agent, UUID(int=0), base + 1, None)
                if base < 0:
                    rows = end(self._session, agent, 0, self._count)
            elif row[0] != place.rows[0][0]:
                key = next(key for position, _, key in rows if position == base)
                yield _Step(agent, key, base, Change.CHANGED)
        if tail is not None and tail.position > base and not any(row[0] > base for row in rows):
            # Positions were left out.
            rows = end(self._session, agent, base + 1, self._count)
        for position, _, key in rows:
            if position > base:
                yield _Step(agent, key, position, Change.NEW)

    def _intact(self, place: Place, there: dict[int, tuple[int, str]]) -> int:
        """Finds the last position of which what was told is still so; -1 if none is known."""
        for index, row in enumerate(place.rows[1:], 1):
            if there.get(place.position - index) == row:
                return place.position - index
        return -1

    # --- telling -----------------------------------------------------------------------------

    def _tell(self, steps: list[_Step]) -> bool:
        """Makes events; returns whether some had to be left for the next page."""
        keys = frozenset(step.id for step in steps if step.change is not None)
        rows: dict[UUID, Row] = {}
        scope = windows.Scope(self._session, only=keys)
        if keys:
            rows = {row.id: row for row in windows.beginning(scope, count=len(keys)).rows}
        told = list(_fitting(steps, rows))
        here = [rows[step.id] for step in told if step.id in rows]
        windows.fill(scope, here)
        kept = {row.id for row in here}
        # One that was popped a moment ago is found out by the next page.
        told = list(takewhile(lambda step: step.change is None or step.id in kept, told))
        for step in told:
            self._events.append(self._event(step, rows))
        return len(told) < len(steps)

    def _event(self, step: _Step, rows: dict[UUID, Row]) -> Event:
        agent, place = digest(step.agent), self._place(step.agent)
        if step.change is None:
            index = place.position - step.position + 1
            kept = replace(place, position=step.position - 1, rows=place.rows[index:])
            self._cursor = self._cursor.with_agent(agent, kept if step.position else None)
            return RemovedEvent(self._cursor, step.agent, step.position)
        row = rows[step.id]
        if step.change is Change.NEW:
            place = place.then(step.position, row.revision, row.id)
        else:
            place = place.with_revision(step.position, row.revision, row.id)
        self._cursor = self._cursor.with_agent(agent, place)
        if step.scanned is not None:
            # With the redactions that were passed over: their messages come in their turn.
            known, at = step.scanned.redactions, step.scanned.under_way
            self._cursor = replace(self._cursor, redactions=known, under_way=at)
        return MessageEvent(self._cursor, row, step.change)


def _fitting(steps: list[_Step], rows: dict[UUID, Row]) -> Iterator[_Step]:
    """Leaves for the next page what a page has no room for, and what went meanwhile."""
    room = windows.ALL_PAYLOADS
    for step in steps:
        if step.change is not None:
            row = rows.get(step.id)
            if row is None:
                # It was popped a moment ago, which the next page finds out.
                return
            room -= row.size if row.size <= windows.ONE_PAYLOAD else 0
            if room < 0:
                return
        yield step
