"""Looking at figures: counters of sessions, rolled-up usage, leases, sizes of stored objects."""

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
"""How long ago a lease has to have expired to be told of."""

_SUMS = ("messages", "input_tokens", "output_tokens")


def look_at_counters(batch: Batch, grace: timedelta) -> None:
    """Compares the counters of sessions with what is in them.

    Tokens were paid for, and are counted also when the message is taken away again: they can only
    be more than what is there.
    """
    now = timezone.now()
    for key, session in batch.sessions.items():
        wanted = wanted_counters(session, batch.counts[key], batch.spent.get(key, Tally()))
        if not wanted or is_arriving(session.origin):
            continue
        newest = batch.newest.get(key, session.created_at)
        kind = Kind.COUNTING if newest > now - grace else Kind.COUNTERS
        batch.add(kind, session=key, detail=", ".join(sorted(wanted)))


def wanted_counters(session: Session, messages: int, spent: Tally) -> dict[str, int]:
    """Says which counters of a session should be otherwise."""
    wanted = {} if session.message_count == messages else {"message_count": messages}
    if session.origin is None:
        # What was imported or copied was counted elsewhere.
        for name in ("input_tokens", "output_tokens"):
            least = max(getattr(spent, name), 0)
            if getattr(session, name) < least:
                wanted[name] = least
    return wanted


def look_at_leases(batch: Batch) -> None:
    """Looks for leases that nobody holds any more."""
    rows = old_leases(batch.using).filter(session__in=batch.sessions)
    for (key,) in rows.values_list("pk"):
        batch.add(Kind.LEASE, session=key)


def old_leases(using: str) -> QuerySet[RunLease]:
    """Finds leases that expired long ago, by the database's clock."""
    return RunLease._base_manager.using(using).filter(expires_at__lt=DatabaseNow() - LEASE_AGE)


def damaged_objects(rows: QuerySet[StoredObject]) -> list[Finding]:
    """Looks for stored objects whose parts are not all there."""
    measured = rows.annotate(
        there=Coalesce(Sum(OctetLength(F("parts__data"))), 0),
        pieces=Count("parts"),
        last=Max("parts__number"),
    )
    found = []
    for part in parts(measured, "session_id", "size", "there", "pieces", "last"):
        for key, session, size, there, pieces, last in part:
            if size != there or pieces != (-1 if last is None else last) + 1:
                found.append(Finding(Kind.STORED_OBJECT, session=session, row=key))
    return found


# --- rolled-up usage ------------------------------------------------------------------------------


def counted_message(using: str) -> UUID | None:
    """Reads which message the roll-up of usage counted last."""
    cursor = UsageCursor.objects.using(using).first()
    return None if cursor is None else cursor.message


def look_at_usage(using: str, days: Mapping[date, Tally], counted: UUID | None) -> list[Finding]:
    """Compares rolled-up figures with each other, and with what was said.

    What was deleted stays in them, so that they can only be more than what is there.
    """
    now = counted_message(using)
    if counted is None or now is None or now < counted:
        # It is being counted anew.
        return []
    rows = UsageRollup.objects.using(using)
    by_day = _sums(rows.filter(dimension=UsageRollup.Dimension.DAY).values_list("period"))
    by_agent = _sums(rows.filter(dimension=UsageRollup.Dimension.AGENT).values_list("period"))
    months = rows.filter(dimension=UsageRollup.Dimension.DAY).annotate(month=TruncMonth("period"))
    by_month = _sums(months.values_list("month"))
    by_owner = _sums(rows.filter(dimension=UsageRollup.Dimension.OWNER).values_list("period"))
    if counted_message(using) != now:
        # The figures were read one after the other, while they moved.
        return []
    wrong = {f"{day} by agent" for day in _different(by_day, by_agent)}
    wrong |= {f"{month:%Y-%m} by owner" for month in _different(by_month, by_owner)}
    for day, said in days.items():
        if any(had < least for had, least in zip(by_day.get(day, Tally()), said, strict=True)):
            wrong.add(f"{day}")
    return [Finding(Kind.USAGE, detail=detail) for detail in sorted(wrong)]


def _sums(rows: QuerySet[UsageRollup, tuple[date]]) -> dict[date, Tally]:
    sums = {f"all_{name}": Sum(name) for name in _SUMS}
    found = rows.annotate(**sums).order_by()
    return {_date(period): Tally(*map(int, figures)) for period, *figures in found}


def _date(value: date | datetime) -> date:
    return value.date() if isinstance(value, datetime) else value


def _different(left: Mapping[date, Tally], right: Mapping[date, Tally]) -> list[date]:
    nothing = Tally()
    return [
        period
        for period in left.keys() | right.keys()
        if left.get(period, nothing) != right.get(period, nothing)
    ]
