"""Count the feedback of days, in the order of its primary keys."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from django.conf import settings
from django.db.models import Count, Q
from django.db.models.functions import TruncDate

from django_agent_sessions.db import bridge
from django_agent_sessions.models import MessageFeedback
from django_agent_sessions.values.ids import first_id_for_time, time_of_id

from .figures import span
from .rollups import day_of

NEWEST = 50_000
"""Rows of feedback that are counted at most, the newest ones."""


@dataclass(frozen=True, slots=True)
class DayRatings:
    """Ratings of messages on a day.

    Attributes:
        day: The day, in UTC.
        good: Number of good ratings; None if there is too much later feedback to count them.
        bad: Number of bad ratings, or None.
    """

    day: date
    good: int | None
    bad: int | None


def daily_ratings(
    days: int, *, until: date | None = None, using: str | None = None
) -> list[DayRatings]:
    """Count the ratings of each day that are stored.

    They are not rolled up: a rating that was changed or deleted counts as it is now. The newest
    50,000 rows of feedback are counted; days before them are unknown.

    Args:
        days: Number of days.
        until: The last day; by default today.
        using: The database alias.

    Returns:
        One entry per day, oldest first.
    """
    first, last = span(days, until)
    rows = MessageFeedback.objects.using(bridge.database(using)).filter(
        pk__gte=first_id_for_time(midnight(first)),
        pk__lt=first_id_for_time(midnight(last + timedelta(1))),
    )
    complete_from = first
    for key in rows.order_by("-pk").values_list("pk", flat=True)[NEWEST : NEWEST + 1]:
        rows = rows.filter(pk__gt=key)
        complete_from = day_of(time_of_id(key)) + timedelta(1)
    zone = UTC if settings.USE_TZ else None
    counted = {
        day: (good, bad)
        for day, good, bad in rows.order_by()
        .annotate(day=TruncDate("created_at", tzinfo=zone))
        .values("day")
        .annotate(
            good=Count("pk", filter=Q(value=MessageFeedback.Value.GOOD)),
            bad=Count("pk", filter=Q(value=MessageFeedback.Value.BAD)),
        )
        .values_list("day", "good", "bad")
    }
    known = (first + timedelta(number) for number in range(days))
    return [
        DayRatings(day, *(counted.get(day, (0, 0)) if day >= complete_from else (None, None)))
        for day in known
    ]


def midnight(day: date) -> datetime:
    """Return the time at which a day of the figures begins."""
    return datetime.combine(day, time(), UTC if settings.USE_TZ else None)
