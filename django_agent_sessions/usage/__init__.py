"""Usage statistics: messages, tokens and latencies per day, agent, owner and model.

Messages are counted once into roll-up rows, so that a report over 90 days reads some hundred short
rows, however many messages there are. The figures stay when the counted messages are deleted, and
contain no content.
"""

from __future__ import annotations

from django_agent_sessions.values.prices import amount

from .figures import (
    AgentFigures,
    DayFigures,
    Figures,
    ModelFigures,
    OwnerFigures,
    by_agent,
    by_model,
    by_owner,
    counted_until,
    daily,
    first_day,
    today,
    total,
)
from .histograms import percentile
from .rollups import RollUpResult, rebuild, roll_up

__all__ = [
    "AgentFigures",
    "DayFigures",
    "Figures",
    "ModelFigures",
    "OwnerFigures",
    "RollUpResult",
    "amount",
    "by_agent",
    "by_model",
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
