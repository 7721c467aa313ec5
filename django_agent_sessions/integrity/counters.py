"""Checks of figures: session counters, usage roll-ups, leases, and sizes of stored objects."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from math import ceil
from uuid import UUID

from django.db.models import Count, F, Max, QuerySet, Sum
from django.db.models.functions import Coalesce, TruncMonth
from django.utils import timezone

from django_agent_sessions.content import codec
from django_agent_sessions.leases.lease_rows import DatabaseNow
from django_agent_sessions.models import RunLease, Session, StoredObject, UsageCursor, UsageRollup
from django_agent_sessions.models.functions import OctetLength
from django_agent_sessions.store.snapshots import PART_SIZE
from django_agent_sessions.values.token_counts import TokenCounts

from .batch import Batch, UsageSum
from .findings import Finding, Kind
from .row_batches import key_batches
from .timeline import is_import_incomplete

LEASE_AGE = timedelta(days=1)
"""Leases that expired longer ago than this are reported."""

_SUMS = UsageSum._fields


def check_counters(batch: Batch, grace: timedelta) -> None:
    """Compare the counters of sessions with their messages.

    Token counters include deleted messages, because these were paid for: they may exceed the
    sum of the messages.
    """
    now = timezone.now()
    for key, session in batch.sessions.items():
        spent = batch.spent.get(key, UsageSum())
        corrections = counter_corrections(
            session,
            batch.counts[key],
            batch.errors[key],
            # A turn's usage contains what its messages report: the sum of both may be too high.
            spent.at_least(batch.spent_by_turns.get(key, UsageSum())),
        )
        if not corrections or is_import_incomplete(session.origin):
            continue
        newest = batch.newest.get(key, session.created_at)
        kind = Kind.COUNTING if newest > now - grace else Kind.COUNTERS
        batch.add(kind, session=key, detail=", ".join(sorted(corrections)))


def counter_corrections(
    session: Session, messages: int, errors: int, spent: UsageSum
) -> dict[str, int]:
    """Return the correct values of a session's wrong counters."""
    correct = {"message_count": messages, "error_count": errors, "has_errors": errors > 0}
    corrections: dict[str, int] = {
        name: count for name, count in correct.items() if getattr(session, name) != count
    }
    if session.origin is None:
        # Imported and copied messages were counted in their original session.
        for name in TokenCounts._fields:
            least = max(getattr(spent, name), 0)
            if (getattr(session, name) or 0) < least:
                corrections[name] = least
    return corrections


def check_leases(batch: Batch) -> None:
    """Find leases that expired long ago."""
    rows = expired_leases(batch.using).filter(session__in=batch.sessions)
    for (key,) in rows.values_list("pk"):
        batch.add(Kind.LEASE, session=key)


def expired_leases(using: str) -> QuerySet[RunLease]:
    """Return leases that expired long ago by the database's clock."""
    return RunLease._base_manager.using(using).filter(expires_at__lt=DatabaseNow() - LEASE_AGE)


def check_stored_objects(rows: QuerySet[StoredObject]) -> list[Finding]:
    """Find stored objects with missing or incomplete parts."""
    objects = rows.annotate(
        there=Coalesce(Sum(OctetLength(F("parts__data"))), 0),
        pieces=Count("parts"),
        last=Max("parts__number"),
    )
    findings = []
    for part in key_batches(objects, "session_id", "size", "there", "pieces", "last"):
        for key, session, size, there, pieces, last in part:
            parts = max(1, ceil(size / PART_SIZE))
            # Sealed parts are larger than what they hold.
            if (pieces, last) != (parts, parts - 1) or (codec.is_plain() and size != there):
                findings.append(Finding(Kind.STORED_OBJECT, session=session, row=key))
    return findings


# --- rolled-up usage ------------------------------------------------------------------------------


def last_counted_message(using: str) -> UUID | None:
    """Return the key of the last message that the usage roll-up counted."""
    cursor = UsageCursor.objects.using(using).first()
    return None if cursor is None else cursor.message


def check_usage(using: str, days: Mapping[date, UsageSum], counted: UUID | None) -> list[Finding]:
    """Compare the usage roll-ups with each other and with the messages.

    They include deleted messages, so they may exceed the sum of the messages.
    """
    cursor = UsageCursor.objects.using(using).first()
    current, first = (None, None) if cursor is None else (cursor.message, cursor.first_kept)
    if counted is None or current is None or current < counted:
        # The usage is being rebuilt.
        return []
    rows = UsageRollup.objects.using(using)
    if first is not None:
        rows = rows.filter(period__gte=first)
    by_dimension = {
        dimension: _sums(rows.filter(dimension=dimension).values_list("period"))
        for pair in UsageRollup.Dimension.of_hours().items()
        for dimension in pair
    }
    months = rows.filter(dimension=UsageRollup.Dimension.DAY).annotate(month=TruncMonth("period"))
    if first is not None:
        # Of a month that began before, only some days are left.
        months = months.filter(month__gte=first)
    by_month = _sums(months.values_list("month"))
    by_owner = _sums(rows.filter(dimension=UsageRollup.Dimension.OWNER).values_list("period"))
    if last_counted_message(using) != current:
        # A roll-up ran between the queries, so the figures are inconsistent.
        return []
    by_day = by_dimension[UsageRollup.Dimension.DAY]
    by_agent = by_dimension[UsageRollup.Dimension.AGENT]
    by_namespace = by_dimension[UsageRollup.Dimension.NAMESPACE]
    wrong = {f"{day} by agent" for day in _different_periods(by_day, by_agent)}
    wrong |= {f"{day} by namespace" for day in _different_periods(by_day, by_namespace)}
    for whole, hours in UsageRollup.Dimension.of_hours().items():
        days_of_hours = _different_periods(by_dimension[whole], by_dimension[hours])
        wrong |= {f"{day} by {hours}" for day in days_of_hours}
    wrong |= {f"{month:%Y-%m} by owner" for month in _different_periods(by_month, by_owner)}
    for day, tally in days.items():
        is_kept = first is None or day >= first
        if is_kept and _exceeds(tally, by_day.get(day, UsageSum())):
            wrong.add(f"{day}")
    return [Finding(Kind.USAGE, detail=detail) for detail in sorted(wrong)]


def _exceeds(figures: UsageSum, most: UsageSum) -> bool:
    return any(figure > limit for figure, limit in zip(figures, most, strict=True))


def _sums(rows: QuerySet[UsageRollup, tuple[date]]) -> dict[date, UsageSum]:
    sums = {f"all_{name}": Sum(name) for name in _SUMS}
    values = rows.annotate(**sums).order_by()
    return {
        _date(period): UsageSum(*(int(figure or 0) for figure in figures))
        for period, *figures in values
    }


def _date(value: date | datetime) -> date:
    return value.date() if isinstance(value, datetime) else value


def _different_periods(left: Mapping[date, UsageSum], right: Mapping[date, UsageSum]) -> list[date]:
    zero = UsageSum()
    return [
        period
        for period in left.keys() | right.keys()
        if left.get(period, zero) != right.get(period, zero)
    ]
