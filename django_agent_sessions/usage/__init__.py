"""Usage statistics: messages, tokens and latencies by day, agent, model, namespace and owner.

Messages are counted once into roll-up rows, so that a report over 90 days reads some hundred short
rows, however many messages there are. The figures stay when the counted messages are deleted, and
contain no content.
"""

from __future__ import annotations

from django_agent_sessions.values.prices import amount

from .figures import (
    DayFigures,
    Figures,
    KeyFigures,
    MonthFigures,
    by_month,
    by_owner,
    counted_until,
    daily,
    first_day,
    midnight,
    today,
    top,
    total,
)
from .histograms import percentile
from .ratings import DayRatings, Ratings, daily_ratings, ratings_by
from .rollups import RollUpResult, rebuild, roll_up

__all__ = [
    "DayFigures",
    "DayRatings",
    "Figures",
    "KeyFigures",
    "MonthFigures",
    "Ratings",
    "RollUpResult",
    "amount",
    "by_month",
    "by_owner",
    "counted_until",
    "daily",
    "daily_ratings",
    "first_day",
    "midnight",
    "percentile",
    "ratings_by",
    "rebuild",
    "roll_up",
    "today",
    "top",
    "total",
]
