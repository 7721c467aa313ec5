"""Counting what was said since the last time, into one row per day, agent and owner.

Keys are made in time (UUIDv7), so that "since the last time" is a range of the primary key, and a
cursor in the database says how far the count has come. What was counted and the cursor change in
one transaction: a roll-up that is killed has counted its last batch or has not.
"""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from django_agent_sessions import bridge
from django_agent_sessions.ids import first_id_at, made_at
from django_agent_sessions.models import (
    MAIN_BRANCH,
    Session,
    SessionMessage,
    UsageCursor,
    UsageRollup,
)

from .latencies import bucket
from .tallies import Row, Tallies, Tally, add, day_of

LAG = timedelta(minutes=10)
"""What is younger is counted the next time: a transaction commits later than its keys are made."""

_CURSOR = 1


@dataclass(frozen=True, slots=True)
class Counted:
    """What a roll-up did.

    Attributes:
        messages: How many messages it counted.
        sessions: How many sessions it counted.
        complete: Whether it came to the end; it may have had too little time.
    """

    messages: int
    sessions: int
    complete: bool


def roll_up(
    *,
    using: str | None = None,
    batch: int = 20_000,
    until: datetime | None = None,
    seconds: float | None = None,
) -> Counted:
    """Counts what was said since the last roll-up.

    Two may run at once: they take turns, and nothing is counted twice. Each batch is a
    transaction of its own, unless the caller has one open.

    Args:
        using: The alias of the database.
        batch: How many messages, and how many sessions, are counted in one transaction.
        until: Count what was made before; by default :data:`LAG` ago.
        seconds: Begin no further batch after this time; by default it runs to the end.

    Returns:
        How much was counted.
    """
    # Here, because the admin's start would wait for all of the store.
    from django_agent_sessions.store.base import whole, write

    alias = bridge.database(using)
    deadline = None if seconds is None else time.monotonic() + seconds
    end = timezone.now() - LAG if until is None else until

    def count(unsure: bool) -> tuple[int, int]:
        with whole(alias):
            return _count_batch(alias, batch, end)

    UsageCursor.objects.using(alias).get_or_create(pk=_CURSOR)
    messages = sessions = 0
    while True:
        more_messages, more_sessions = write(alias, count, what="counting usage")
        messages += more_messages
        sessions += more_sessions
        complete = more_messages < batch and more_sessions < batch
        if complete or (deadline is not None and time.monotonic() >= deadline):
            return Counted(messages, sessions, complete)


def rebuild(
    *, using: str | None = None, batch: int = 20_000, until: datetime | None = None
) -> Counted:
    """Forgets all figures and counts anew what is there.

    What was deleted since it was counted is then no longer in them.

    Args:
        using: As for :func:`roll_up`.
        batch: As for :func:`roll_up`.
        until: As for :func:`roll_up`.

    Returns:
        How much was counted.
    """
    alias = bridge.database(using)
    UsageCursor.objects.using(alias).get_or_create(pk=_CURSOR)
    with transaction.atomic(alias):
        cursor = _locked_cursor(alias)
        UsageRollup.objects.using(alias).all().delete()
        cursor.message = cursor.session = cursor.counted_at = None
        cursor.save(using=alias)
    return roll_up(using=alias, batch=batch, until=until)


def _count_batch(alias: str, batch: int, end: datetime) -> tuple[int, int]:
    cursor = _locked_cursor(alias)
    tallies: Tallies = defaultdict(Tally)
    messages = _next_messages(alias, cursor.message, end, batch)
    for message in messages:
        _tally_message(tallies, message)
    sessions = _next_sessions(alias, cursor.session, end, batch)
    for session in sessions:
        _tally_session(tallies, session)
    add(alias, tallies)
    come_to = end
    if messages:
        cursor.message = messages[-1].id
    if sessions:
        cursor.session = sessions[-1].id
    if len(messages) == batch:
        come_to = min(come_to, _made_at(messages[-1].id))
    if len(sessions) == batch:
        come_to = min(come_to, _made_at(sessions[-1].id))
    # Another roll-up may have come further.
    cursor.counted_at = max(cursor.counted_at or come_to, come_to)
    cursor.save(using=alias)
    return len(messages), len(sessions)


def _locked_cursor(alias: str) -> UsageCursor:
    """Keeps other roll-ups out until the transaction ends.

    The update comes first, because SQLite has no row locks: it makes the transaction a writing
    one before anything is read. The locking read then sees what was committed last, where a
    plain one would look at the snapshot of a caller's transaction (MariaDB, REPEATABLE READ).
    """
    cursors = UsageCursor.objects.using(alias)
    cursors.filter(pk=_CURSOR).update(counted_at=F("counted_at"))
    return cursors.select_for_update().get(pk=_CURSOR)


# --- what is counted ------------------------------------------------------------------------------


class _Message(NamedTuple):
    id: UUID
    created_at: datetime
    agent_id: str
    owner: Any
    first: bool
    input_tokens: int | None
    output_tokens: int | None
    latency_ms: int | None


class _Session(NamedTuple):
    id: UUID
    created_at: datetime
    owner: Any


def _next_messages(alias: str, after: UUID | None, end: datetime, limit: int) -> list[_Message]:
    rows = SessionMessage.objects.using(alias).filter(**_range(after, end)).order_by("id")
    # A copy, on another branch or in a fork, was neither said nor paid for again.
    values = rows.filter(source__isnull=True).values_list(
        "id",
        "created_at",
        "agent__agent_id",
        "session__owner_id",
        "message_id",
        "branch",
        "input_tokens",
        "output_tokens",
        "latency_ms",
    )
    return [
        _Message(row[0], row[1], row[2], row[3], row[4] == 0 and row[5] == MAIN_BRANCH, *row[6:9])
        for row in values[:limit]
    ]


def _next_sessions(alias: str, after: UUID | None, end: datetime, limit: int) -> list[_Session]:
    rows = Session.objects.using(alias).filter(**_range(after, end)).order_by("id")
    return [_Session(*row) for row in rows.values_list("id", "created_at", "owner_id")[:limit]]


def _range(after: UUID | None, end: datetime) -> dict[str, UUID]:
    bounds = {"id__lt": first_id_at(end)}
    return bounds if after is None else {"id__gt": after, **bounds}


def _tally_message(tallies: Tallies, message: _Message) -> None:
    day = day_of(message.created_at)
    of_day = tallies[Row(UsageRollup.Dimension.DAY, day, "")]
    of_agent = tallies[Row(UsageRollup.Dimension.AGENT, day, message.agent_id)]
    of_owner = tallies[_owner_row(day, message.owner)]
    # An agent's sessions are the conversations that it began.
    of_agent.sessions += message.first
    for tally in (of_day, of_agent, of_owner):
        tally.messages += 1
        tally.input_tokens += message.input_tokens or 0
        tally.output_tokens += message.output_tokens or 0
    if message.latency_ms is not None:
        name = str(bucket(message.latency_ms))
        for tally in (of_day, of_agent, of_owner):
            tally.latencies[name] += 1


def _tally_session(tallies: Tallies, session: _Session) -> None:
    day = day_of(session.created_at)
    tallies[Row(UsageRollup.Dimension.DAY, day, "")].sessions += 1
    tallies[_owner_row(day, session.owner)].sessions += 1


def _owner_row(day: date, owner: Any) -> Row:
    key = "" if owner is None else str(owner)
    return Row(UsageRollup.Dimension.OWNER, day.replace(day=1), key)


def _made_at(key: UUID) -> datetime:
    made = made_at(key)
    return made if settings.USE_TZ else timezone.make_naive(made)
