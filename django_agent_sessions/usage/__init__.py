"""Usage: how much was said, by which agents, for whom, and how long the models took.

The figures are counted from the messages once, and kept: a page of 90 days reads some hundred
short rows, whether ten thousand messages were said or ten million. They stay when what they count
is deleted, and hold no content.
"""

from __future__ import annotations

from .counting import Counted, rebuild, roll_up
from .latencies import percentile
from .reading import (
    AgentFigures,
    DayFigures,
    Figures,
    OwnerFigures,
    by_agent,
    by_owner,
    counted_until,
    daily,
    first_day,
    today,
    total,
)

__all__ = [
    "AgentFigures",
    "Counted",
    "DayFigures",
    "Figures",
    "OwnerFigures",
    "by_agent",
    "by_owner",
    "counted_until",
    "daily",
    "first_day",
    "percentile",
    "rebuild",
    "roll_up",
    "today",
    "total",
]
