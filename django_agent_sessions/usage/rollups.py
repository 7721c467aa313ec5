"""Count new messages and sessions into roll-up rows of hours, days and months.

Primary keys are ordered by time (UUIDv7), so that new rows are a range of keys, and a cursor row
stores how far the count has come. The counts and the cursor change in one transaction, so that a
killed roll-up neither loses nor repeats a batch.

A message is counted where the key of its original is in this order. If only copies are left of it,
one of them is counted there. A copy of a message that was counted before is therefore never
counted, even if the original is deleted later.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from typing import Any, NamedTuple
from uuid import UUID

from django.conf import settings
from django.db import connections, transaction
from django.db.models import F, QuerySet
from django.utils import timezone

from django_agent_sessions.conf import get_settings
from django_agent_sessions.db import bridge
from django_agent_sessions.db.loop_guard import sync_only
from django_agent_sessions.db.retries import tracked_atomic, write
from django_agent_sessions.models import (
    Session,
    SessionAgent,
    SessionMessage,
    UsageCursor,
    UsageRollup,
)
from django_agent_sessions.models.functions import without_original
from django_agent_sessions.models.querysets import groups_of_keys
from django_agent_sessions.models.removed_messages import removed_before
from django_agent_sessions.values.ids import first_id_for_time, time_of_id
from django_agent_sessions.values.prices import cost_of
from django_agent_sessions.values.records import add_known
from django_agent_sessions.values.token_counts import TokenCounts

from .histograms import bucket_of

_CHUNK = 500

OWNERS_OF_A_DAY = 200
"""Owners that are kept of a day: those with the most messages, and as many with the highest costs.
The months have all owners."""


class RollupKey(NamedTuple):
    """The unique key of a roll-up row."""

    dimension: str
    period: date
    key: str
    hour: int = 0


@dataclass(slots=True)
class Counts:
    """The counts that one batch adds to one row."""

    sessions: int = 0
    messages: int = 0
    errors: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    cost: int | None = None
    latencies: Counter[str] = field(default_factory=Counter)


Tallies = defaultdict[RollupKey, Counts]
"""The counts of one batch, by row."""


def hour_of(moment: datetime) -> datetime:
    """Return the hour (in UTC) in which a time is counted."""
    moment = moment if timezone.is_naive(moment) else moment.astimezone(UTC)
    return moment.replace(minute=0, second=0, microsecond=0)


def day_of(moment: datetime) -> date:
    """Return the day (in UTC) on which a time is counted."""
    return hour_of(moment).date()


def add_to_rollups(alias: str, tallies: Tallies) -> None:
    """Add counts to the existing roll-up rows, and create the others.

    The caller holds the cursor's lock, so that no other process writes in between.
    """
    rows = [
        _sum(existing.get(key), key, tallies[key])
        for keys in _chunks(sorted(tallies))
        for existing in [_existing(alias, keys)]
        for key in keys
    ]
    has_conflict_target = connections[alias].features.supports_update_conflicts_with_target
    UsageRollup.objects.using(alias).bulk_create(
        rows,
        batch_size=_CHUNK,
        update_conflicts=True,
        update_fields=[
            "sessions",
            "messages",
            "errors",
            "input_tokens",
            "output_tokens",
            "cache_read_tokens",
            "cache_write_tokens",
            "cost",
            "latencies",
        ],
        unique_fields=["dimension", "period", "key", "hour"] if has_conflict_target else None,
    )


def _chunks(keys: Sequence[RollupKey]) -> Iterator[Sequence[RollupKey]]:
    for _, group in groupby(keys, lambda row: (row.dimension, row.period)):
        same_period = list(group)
        for start in range(0, len(same_period), _CHUNK):
            yield same_period[start : start + _CHUNK]


def _existing(alias: str, keys: Sequence[RollupKey]) -> dict[RollupKey, UsageRollup]:
    """Read the existing rows of one dimension and period, with a lock as for the cursor."""
    rows = UsageRollup.objects.using(alias).filter(
        dimension=keys[0].dimension,
        period=keys[0].period,
        key__in={row.key for row in keys},
        hour__in={row.hour for row in keys},
    )
    return {
        RollupKey(row.dimension, row.period, row.key, row.hour): row
        for row in rows.select_for_update()
    }


def _sum(existing: UsageRollup | None, key: RollupKey, tally: Counts) -> UsageRollup:
    row = UsageRollup(**key._asdict())
    for counts in (existing, tally):
        if counts is not None:
            _add(row, counts)
    return row


def _add(row: UsageRollup | Counts, counts: UsageRollup | Counts) -> None:
    row.sessions += counts.sessions
    row.messages += counts.messages
    row.errors += counts.errors
    for name in (*TokenCounts._fields, "cost"):
        setattr(row, name, add_known(getattr(row, name), getattr(counts, name)))
    row.latencies = Counter(row.latencies) + Counter(counts.latencies)


LAG = timedelta(minutes=10)
"""Younger rows wait for the next roll-up: a transaction commits after its keys are created."""

_COPY_DISTANCE = timedelta(minutes=10)
"""The largest difference between the times in the keys of a message and of its copies.

A copy's key contains the time in ``created_at``, which is usually some milliseconds away from the
key of the original. With this limit, the search for copies reads a range of keys."""

_CURSOR = 1


@dataclass(frozen=True, slots=True)
class RollUpResult:
    """The result of a roll-up.

    Attributes:
        messages: Number of counted messages.
        sessions: Number of counted sessions.
        complete: False if the roll-up stopped early because its time was used up.
    """

    messages: int
    sessions: int
    complete: bool


@sync_only
def roll_up(
    *,
    using: str | None = None,
    batch: int = 20_000,
    until: datetime | None = None,
    seconds: float | None = None,
) -> RollUpResult:
    """Count the messages and sessions that were created since the last roll-up.

    Concurrent roll-ups are safe: they wait for each other and count nothing twice. Each batch is a
    transaction, unless the caller has one open.

    Args:
        using: The database alias.
        batch: Maximum number of messages, and of sessions, per transaction.
        until: Count what was created before this time; by default :data:`LAG` ago.
        seconds: Seconds after which no further batch is started; by default there is no limit.

    Returns:
        What was counted.
    """
    alias = bridge.database(using)
    deadline = None if seconds is None else time.monotonic() + seconds
    end = timezone.now() - LAG if until is None else until

    def count(unsure: bool) -> tuple[int, int]:
        with tracked_atomic(alias):
            return _count_batch(alias, batch, end)

    UsageCursor.objects.using(alias).get_or_create(pk=_CURSOR)
    messages = sessions = 0
    while True:
        more_messages, more_sessions = write(alias, count, what="counting usage")
        messages += more_messages
        sessions += more_sessions
        complete = more_messages < batch and more_sessions < batch
        if complete or (deadline is not None and time.monotonic() >= deadline):
            return RollUpResult(messages, sessions, complete)


@sync_only
def rebuild(
    *, using: str | None = None, batch: int = 20_000, until: datetime | None = None
) -> RollUpResult:
    """Delete all figures, and count the existing messages and sessions again.

    Deleted messages are then no longer counted. Costs are computed with the current ``PRICES``.

    Args:
        using: See ``roll_up``.
        batch: See ``roll_up``.
        until: See ``roll_up``.

    Returns:
        What was counted.
    """
    alias = bridge.database(using)
    UsageCursor.objects.using(alias).get_or_create(pk=_CURSOR)
    with transaction.atomic(alias):
        cursor = _locked_cursor(alias)
        UsageRollup.objects.using(alias).all().delete()
        cursor.message = cursor.session = cursor.counted_at = cursor.first_kept = None
        cursor.save(using=alias)
    return roll_up(using=alias, batch=batch, until=until)


def _count_batch(alias: str, batch: int, end: datetime) -> tuple[int, int]:
    cursor = _locked_cursor(alias)
    tallies: Tallies = defaultdict(Counts)
    messages = _next_messages(alias, cursor.message, end, batch)
    prices = get_settings().PRICES
    first = _first_messages(alias, messages, cursor.message)
    for message in messages:
        is_first = message.original == first.get(message.agent)
        _tally_message(tallies, message, prices, is_first=is_first)
    sessions = _next_sessions(alias, cursor.session, end, batch)
    for session in sessions:
        _tally_session(tallies, session)
    _tally_days(tallies)
    add_to_rollups(alias, tallies)
    # What will be written until a later time is not counted, and the day is not over.
    counted_until = min(end, timezone.now())
    if messages:
        cursor.message = messages[-1].original
    if sessions:
        cursor.session = sessions[-1].id
    if len(messages) == batch:
        counted_until = min(counted_until, _creation_time(messages[-1].original))
    if len(sessions) == batch:
        counted_until = min(counted_until, _creation_time(sessions[-1].id))
    # Another roll-up may have counted further.
    before = cursor.counted_at or counted_until
    cursor.counted_at = max(before, counted_until)
    cursor.save(using=alias)
    _drop_small_owners(alias, {day_of(before), *_days_of_owners(tallies)}, cursor.counted_at)
    return len(messages), len(sessions)


def _days_of_owners(tallies: Tallies) -> Iterator[date]:
    return (row.period for row in tallies if row.dimension == UsageRollup.Dimension.OWNER_DAY)


def _drop_small_owners(alias: str, days: Iterable[date], counted_until: datetime) -> None:
    """Delete the owners with low figures of the days that are over, so that reports stay quick."""
    for day in sorted(days):
        rows = UsageRollup.objects.using(alias).filter(
            dimension=UsageRollup.Dimension.OWNER_DAY, period=day
        )
        if day >= day_of(counted_until) or not rows.order_by()[OWNERS_OF_A_DAY:].exists():
            continue
        highest = (
            rows.order_by(F(name).desc(nulls_last=True)).values_list("pk", flat=True)
            for name in ("messages", "cost")
        )
        kept = {key for keys in highest for key in keys[:OWNERS_OF_A_DAY]}
        rows.exclude(pk__in=kept).delete()


def _locked_cursor(alias: str) -> UsageCursor:
    """Lock out other roll-ups until the transaction ends.

    The update comes first because SQLite has no row locks: it makes the transaction a writing one.
    The locking read then returns what was committed last, while a plain one would use the snapshot
    of a caller's transaction (MariaDB, REPEATABLE READ).
    """
    cursors = UsageCursor.objects.using(alias)
    cursors.filter(pk=_CURSOR).update(counted_at=F("counted_at"))
    return cursors.select_for_update().get(pk=_CURSOR)


# --- the rows to count ----------------------------------------------------------------------------


_MESSAGE_COLUMNS = (
    # The key of the original, which may be deleted.
    "original",
    "created_at",
    "agent",
    "agent_name",
    "message_id",
    "namespace",
    "owner",
    *TokenCounts._fields,
    "latency_ms",
    "model",
    "has_error",
)


class _Session(NamedTuple):
    id: UUID
    created_at: datetime
    namespace: str
    owner: Any


def _next_messages(alias: str, after: UUID | None, end: datetime, limit: int) -> list[Any]:
    """Return rows with ``_MESSAGE_COLUMNS``."""
    originals = _originals(alias, after, end, limit)
    last = originals[-1].original if len(originals) == limit else None
    # Second, and without those that were deleted between the statements.
    known = {message.original for message in originals}
    copies = _copies_without_original(alias, after, last, end, limit)
    messages = [*originals, *(message for message in copies if message.original not in known)]
    return sorted(messages, key=lambda message: message.original)[:limit]


def _originals(alias: str, after: UUID | None, end: datetime, limit: int) -> list[Any]:
    rows = SessionMessage.objects.using(alias).filter(source__isnull=True)
    return _read(rows.filter(**_range(after, end)), "id", limit)


def _copies_without_original(
    alias: str, after: UUID | None, last: UUID | None, end: datetime, limit: int
) -> list[Any]:
    """Read a copy of each message whose original was deleted, in the order of the originals."""
    every = SessionMessage.objects.using(alias)
    rows = every.filter(
        **_range(after, end, "source"),
        **({} if last is None else {"source__lte": last}),
        # The column has no index, but the primary key has one.
        id__lt=_moved(first_id_for_time(end) if last is None else last, _COPY_DISTANCE),
        **({} if after is None else {"id__gt": _moved(after, -_COPY_DISTANCE)}),
    )
    return _read(without_original(rows, every), "source", limit)


def _moved(key: UUID, by: timedelta) -> UUID:
    """Return a key with an earlier or a later time."""
    milliseconds = by // timedelta(milliseconds=1)
    return UUID(int=min(max(key.int + (milliseconds << 80), 0), 2**128 - 1))


def _read(rows: QuerySet[SessionMessage], key: str, limit: int) -> list[Any]:
    named = rows.order_by(key).annotate(
        original=F(key),
        agent_name=F("agent__agent_id"),
        namespace=F("session__namespace"),
        owner=F("session__owner"),
    )
    return list(named.values_list(*_MESSAGE_COLUMNS, named=True)[:limit])


def _first_messages(alias: str, messages: Iterable[Any], after: UUID | None) -> dict[UUID, UUID]:
    """Return the key of each agent's first message, or of its original if it is a copy.

    An agent has others at the same position after a rewind or compaction of all its messages. An
    agent of which a message was removed that is not newer than ``after`` began its conversation
    before.
    """
    agents = sorted({message.agent for message in messages if message.message_id == 0})
    first: dict[UUID, UUID] = {}
    for keys in groups_of_keys(agents):
        rows = SessionMessage.objects.using(alias).filter(agent__in=keys, message_id=0)
        for agent, key, source in rows.order_by().values_list("agent_id", "pk", "source"):
            original = source or key
            first[agent] = min(original, first.get(agent, original))
        if after is not None:
            changed = SessionAgent.objects.using(alias).filter(
                pk__in=keys, removed_messages__isnull=False
            )
            for agent, removed in changed.order_by().values_list("pk", "removed_messages"):
                if removed and removed_before(removed, after):
                    first.pop(agent, None)
    return first


def _next_sessions(alias: str, after: UUID | None, end: datetime, limit: int) -> list[_Session]:
    rows = Session.objects.using(alias).filter(**_range(after, end)).order_by("id")
    values = rows.values_list("id", "created_at", "namespace", "owner_id")
    return [_Session(*row) for row in values[:limit]]


def _range(after: UUID | None, end: datetime, column: str = "id") -> dict[str, UUID]:
    bounds = {f"{column}__lt": first_id_for_time(end)}
    return bounds if after is None else {f"{column}__gt": after, **bounds}


def _tally_message(
    tallies: Tallies, message: Any, prices: Mapping[str, Mapping[str, Any]], *, is_first: bool
) -> None:
    hour, dimensions = hour_of(message.created_at), UsageRollup.Dimension
    agent_tally = tallies[_of_hour(dimensions.AGENT_HOUR, hour, message.agent_name)]
    # For an agent, sessions are the conversations that it began.
    agent_tally.sessions += is_first
    counted = [agent_tally, *_tallies_of(tallies, hour, message)]
    if message.model:
        counted.append(tallies[_of_hour(dimensions.MODEL_HOUR, hour, message.model)])
    cost = cost_of(prices, message.model, message, message.created_at)
    for tally in counted:
        tally.messages += 1
        tally.errors += message.has_error
        tally.cost = add_known(tally.cost, cost)
        for name in TokenCounts._fields:
            setattr(tally, name, add_known(getattr(tally, name), getattr(message, name)))
    if message.latency_ms is not None:
        name = str(bucket_of(message.latency_ms))
        for tally in counted:
            tally.latencies[name] += 1


def _tally_session(tallies: Tallies, session: _Session) -> None:
    for tally in _tallies_of(tallies, hour_of(session.created_at), session):
        tally.sessions += 1


def _tallies_of(tallies: Tallies, hour: datetime, row: Any) -> Iterator[Counts]:
    """Yield the counts that sessions and their messages have in common."""
    day, owner = hour.date(), "" if row.owner is None else str(row.owner)
    yield tallies[_of_hour(UsageRollup.Dimension.HOUR, hour, "")]
    yield tallies[_of_hour(UsageRollup.Dimension.NAMESPACE_HOUR, hour, row.namespace)]
    yield tallies[RollupKey(UsageRollup.Dimension.OWNER_DAY, day, owner)]
    yield tallies[RollupKey(UsageRollup.Dimension.OWNER, day.replace(day=1), owner)]


def _of_hour(dimension: UsageRollup.Dimension, hour: datetime, key: str) -> RollupKey:
    return RollupKey(dimension, hour.date(), key, hour.hour)


def _tally_days(tallies: Tallies) -> None:
    """Add the counts of the hours to those of their days."""
    days: dict[str, str] = {hours: day for day, hours in UsageRollup.Dimension.of_hours().items()}
    for row, counts in list(tallies.items()):
        if day := days.get(row.dimension):
            _add(tallies[RollupKey(day, row.period, row.key)], counts)


def _creation_time(key: UUID) -> datetime:
    created = time_of_id(key)
    return created if settings.USE_TZ else timezone.make_naive(created)
