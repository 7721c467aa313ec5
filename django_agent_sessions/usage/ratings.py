"""Count the feedback of days, in the order of its primary keys."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import UTC, date, timedelta
from typing import Any, NamedTuple

from django.conf import settings
from django.db.models import Count, Q, QuerySet
from django.db.models.functions import TruncHour

from django_agent_sessions.db import bridge
from django_agent_sessions.db.loop_guard import sync_only
from django_agent_sessions.models import MessageFeedback
from django_agent_sessions.values.ids import first_id_for_time, time_of_id

from .figures import day_of_hour, midnight, span

NEWEST = 50_000
"""Maximum number of rows of feedback that are counted; the newest ones."""


_COUNTS = {
    "good": Count("pk", filter=Q(value=MessageFeedback.Value.GOOD)),
    "bad": Count("pk", filter=Q(value=MessageFeedback.Value.BAD)),
}
_KEYS = {
    "agent": "message__agent__agent_id",
    "model": "message__model",
    "owner": "session__owner_id",
    "namespace": "session__namespace",
}


class Ratings(NamedTuple):
    """Numbers of good and of bad ratings."""

    good: int
    bad: int


@dataclass(frozen=True, slots=True)
class DayRatings:
    """Ratings of messages on a day.

    Attributes:
        day: The day, in the current time zone.
        good: Number of good ratings; None if there is too much later feedback to count them.
        bad: Number of bad ratings, or None.
    """

    day: date
    good: int | None
    bad: int | None


@sync_only
def daily_ratings(
    days: int, *, until: date | None = None, using: str | None = None
) -> list[DayRatings]:
    """Count the stored ratings of each day.

    They are not rolled up: a rating that was changed or deleted counts as it is now. The newest
    50,000 rows of feedback are counted; days before them are unknown.

    Args:
        days: Number of days.
        until: The last day; by default today.
        using: The database alias.

    Returns:
        One entry per day, oldest first.
    """
    first, _last = span(days, until)
    rows, complete_from = _newest(days, until, using)
    # By hours of UTC, because MariaDB knows other time zones only if their tables were loaded.
    hours = (
        rows.order_by()
        .annotate(hour=TruncHour("created_at", tzinfo=UTC if settings.USE_TZ else None))
        .values("hour")
        .annotate(**_COUNTS)
        .values_list("hour", *_COUNTS)
    )
    counted: defaultdict[date, Counter[str]] = defaultdict(Counter)
    for hour, good, bad in hours:
        counted[day_of_hour(hour)].update(good=good, bad=bad)
    known = (first + timedelta(number) for number in range(days))
    return [
        DayRatings(
            day,
            *(counted[day][name] if day >= complete_from else None for name in _COUNTS),
        )
        for day in known
    ]


@sync_only
def ratings_by(
    days: int, *, until: date | None = None, using: str | None = None
) -> dict[str, dict[str, Ratings]]:
    """Count the ratings of several days by agent, model, owner and namespace.

    Like :func:`daily_ratings`, it counts the newest 50,000 rows of feedback. The owner is the owner
    of the conversation.

    Args:
        days: Number of days.
        until: The last day; by default today.
        using: The database alias.

    Returns:
        The ratings by key, for each of ``"agent"``, ``"model"``, ``"owner"`` and ``"namespace"``.
        The keys are those of ``top``.
    """
    rows, _complete_from = _newest(days, until, using)
    grouped = rows.order_by().values(*_KEYS.values()).annotate(**_COUNTS)
    found: dict[str, dict[str, Ratings]] = {name: {} for name in _KEYS}
    for *keys, good, bad in grouped.values_list(*_KEYS.values(), *_COUNTS):
        for ratings, key in zip(found.values(), keys, strict=True):
            name = "" if key is None else str(key)
            before = ratings.get(name, Ratings(0, 0))
            ratings[name] = Ratings(before.good + good, before.bad + bad)
    return found


def _newest(days: int, until: date | None, using: str | None) -> tuple[QuerySet[Any], date]:
    """Return the newest feedback of some days, and the day from which on it is complete."""
    first, last = span(days, until)
    rows = MessageFeedback.objects.using(bridge.database(using)).filter(
        pk__gte=first_id_for_time(midnight(first)),
        pk__lt=first_id_for_time(midnight(last + timedelta(1))),
    )
    for key in rows.order_by("-pk").values_list("pk", flat=True)[NEWEST : NEWEST + 1]:
        return rows.filter(pk__gt=key), day_of_hour(time_of_id(key)) + timedelta(1)
    return rows, first
