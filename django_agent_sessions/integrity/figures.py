"""Checks of figures: session counters, usage roll-ups, leases, and sizes of stored objects."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from uuid import UUID

from django.db.models import Count, F, Max, QuerySet, Sum
from django.db.models.functions import Coalesce, TruncMonth
from django.utils import timezone

from django_agent_sessions.functions import OctetLength
from django_agent_sessions.leases.rows import DatabaseNow
from django_agent_sessions.models import (
    RunLease,
    Session,
    StoredObject,
    UsageCursor,
    UsageRollup,
)

from .batch import Batch, Tally
from .findings import Finding, Kind
from .pieces import parts
from .timeline import is_arriving

LEASE_AGE = timedelta(days=1)
"""Leases that expired longer ago than this are reported."""

_SUMS = ("messages", "input_tokens", "output_tokens")


def look_at_counters(batch: Batch, grace: timedelta) -> None:
    """Compare the counters of sessions with their messages.

    Token counters include deleted messages, because these were paid for: they may exceed the
    sum of the messages.
    """
    now = timezone.now()
    for key, session in batch.sessions.items():
        corrections = wanted_counters(session, batch.counts[key], batch.spent.get(key, Tally()))
        if not corrections or is_arriving(session.origin):
            continue
        newest = batch.newest.get(key, session.created_at)
        kind = Kind.COUNTING if newest > now - grace else Kind.COUNTERS
        batch.add(kind, session=key, detail=", ".join(sorted(corrections)))


def wanted_counters(session: Session, messages: int, spent: Tally) -> dict[str, int]:
    """Return the correct values of a session's wrong counters."""
    corrections = {} if session.message_count == messages else {"message_count": messages}
    if session.origin is None:
        # Imported and copied messages were counted in their original session.
        for name in ("input_tokens", "output_tokens"):
            least = max(getattr(spent, name), 0)
            if getattr(session, name) < least:
                corrections[name] = least
    return corrections


def look_at_leases(batch: Batch) -> None:
    """Find leases that expired long ago."""
    rows = old_leases(batch.using).filter(session__in=batch.sessions)
    for (key,) in rows.values_list("pk"):
        batch.add(Kind.LEASE, session=key)


def old_leases(using: str) -> QuerySet[RunLease]:
    """Return leases that expired long ago by the database's clock."""
    return RunLease._base_manager.using(using).filter(expires_at__lt=DatabaseNow() - LEASE_AGE)


def damaged_objects(rows: QuerySet[StoredObject]) -> list[Finding]:
    """Find stored objects with missing or incomplete parts."""
    objects = rows.annotate(
        there=Coalesce(Sum(OctetLength(F("parts__data"))), 0),
        pieces=Count("parts"),
        last=Max("parts__number"),
    )
    findings = []
    for part in parts(objects, "session_id", "size", "there", "pieces", "last"):
        for key, session, size, there, pieces, last in part:
            if size != there or pieces != (-1 if last is None else last) + 1:
                findings.append(Finding(Kind.STORED_OBJECT, session=session, row=key))
    return findings


# --- rolled-up usage ------------------------------------------------------------------------------


def counted_message(using: str) -> UUID | None:
    """Return the key of the last message that the usage roll-up counted."""
    cursor = UsageCursor.objects.using(using).first()
    return None if cursor is None else cursor.message


def look_at_usage(using: str, days: Mapping[date, Tally], counted: UUID | None) -> list[Finding]:
    """Compare the usage roll-ups with each other and with the messages.

    They include deleted messages, so they may exceed the sum of the messages.
    """
    current = counted_message(using)
    if counted is None or current is None or current < counted:
        # The usage is being rebuilt.
        return []
    rows = UsageRollup.objects.using(using)
    by_day = _sums(rows.filter(dimension=UsageRollup.Dimension.DAY).values_list("period"))
    by_agent = _sums(rows.filter(dimension=UsageRollup.Dimension.AGENT).values_list("period"))
    months = rows.filter(dimension=UsageRollup.Dimension.DAY).annotate(month=TruncMonth("period"))
    by_month = _sums(months.values_list("month"))
    by_owner = _sums(rows.filter(dimension=UsageRollup.Dimension.OWNER).values_list("period"))
    if counted_message(using) != current:
        # A roll-up ran between the queries, so the figures are inconsistent.
        return []
    wrong = {f"{day} by agent" for day in _different_periods(by_day, by_agent)}
    wrong |= {f"{month:%Y-%m} by owner" for month in _different_periods(by_month, by_owner)}
    for day, tally in days.items():
        if any(
            stored < least for stored, least in zip(by_day.get(day, Tally()), tally, strict=True)
        ):
            wrong.add(f"{day}")
    return [Finding(Kind.USAGE, detail=detail) for detail in sorted(wrong)]


def _sums(rows: QuerySet[UsageRollup, tuple[date]]) -> dict[date, Tally]:
    sums = {f"all_{name}": Sum(name) for name in _SUMS}
    values = rows.annotate(**sums).order_by()
    return {_date(period): Tally(*map(int, figures)) for period, *figures in values}


def _date(value: date | datetime) -> date:
    return value.date() if isinstance(value, datetime) else value


def _different_periods(left: Mapping[date, Tally], right: Mapping[date, Tally]) -> list[date]:
    zero = Tally()
    return [
        period
        for period in left.keys() | right.keys()
        if left.get(period, zero) != right.get(period, zero)
    ]
