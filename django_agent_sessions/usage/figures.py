"""Read figures by day, agent and owner, from the roll-up rows only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any

from django.db.models import F, QuerySet, Sum
from django.utils import timezone

from django_agent_sessions.db import bridge
from django_agent_sessions.models import UsageCursor, UsageRollup
from django_agent_sessions.values.records import add_known

from .histograms import percentile
from .rollups import day_of

_COLUMNS = ("sessions", "messages", "input_tokens", "output_tokens", "cost")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Usage figures.

    Attributes:
        sessions: Number of started sessions; for an agent, of conversations that it began.
        messages: Number of messages.
        input_tokens: Number of input tokens that the SDKs reported; None if they reported none.
        output_tokens: Number of output tokens, or None.
        cost: What they cost, in billionths of the currency of ``PRICES``; None if nothing that was
            counted has a price. See ``amount``.
        latencies: Number of latencies per bucket of the histogram.
    """

    sessions: int = 0
    messages: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: int | None = None
    latencies: Mapping[int, int] = field(default_factory=dict, repr=False)

    @property
    def p50(self) -> float | None:
        """The median latency in milliseconds, to 5 %; ``None`` if there are no latencies."""
        return percentile(self.latencies, 0.5)

    @property
    def p95(self) -> float | None:
        """The 95th percentile of the latency in milliseconds, to 5 %."""
        return percentile(self.latencies, 0.95)


@dataclass(frozen=True, slots=True, kw_only=True)
class DayFigures(Figures):
    """Figures of a day.

    Attributes:
        day: The day, in UTC.
    """

    day: date


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFigures(Figures):
    """Figures of an agent, over all sessions with an agent of this id.

    Attributes:
        agent_id: The agent's id.
    """

    agent_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFigures(Figures):
    """Figures of a model, over the messages of which the model's name is known.

    Attributes:
        model: The model's name.
    """

    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerFigures(Figures):
    """Figures of an owner.

    Attributes:
        owner: The user's primary key as text; empty for ownerless sessions.
    """

    owner: str


def today() -> date:
    """Return the current day as the figures count it.

    Returns:
        The day in UTC; with ``USE_TZ = False`` the local day.
    """
    return day_of(timezone.now())


def daily(days: int, *, until: date | None = None, using: str | None = None) -> list[DayFigures]:
    """Read the figures of each day.

    Args:
        days: Number of days.
        until: The last day; by default today.
        using: The database alias.

    Returns:
        One entry per day, oldest first, also for days without messages.
    """
    first, last = _span(days, until)
    rows = UsageRollup.objects.using(bridge.database(using)).filter(
        dimension=UsageRollup.Dimension.DAY, period__range=(first, last), key=""
    )
    rows_by_day = {row.period: row for row in rows}
    return [_day_figures(first + timedelta(number), rows_by_day) for number in range(days)]


def by_agent(
    days: int, *, limit: int = 20, until: date | None = None, using: str | None = None
) -> list[AgentFigures]:
    """Read the figures of the agents with the most messages.

    Args:
        days: Number of days to add up.
        limit: Maximum number of agents.
        until: The last day; by default today.
        using: The database alias.

    Returns:
        The agents, those with the most messages first.
    """
    rows = _rows_of(UsageRollup.Dimension.AGENT, days, until, using)
    return [
        AgentFigures(agent_id=key, **figures) for key, figures in _most(rows, "all_messages", limit)
    ]


def by_model(
    days: int, *, limit: int = 20, until: date | None = None, using: str | None = None
) -> list[ModelFigures]:
    """Read the figures of the models with the highest costs.

    Args:
        days: Number of days to add up.
        limit: Maximum number of models.
        until: The last day; by default today.
        using: The database alias.

    Returns:
        The models, those with the highest costs first, and those without a price last.
    """
    rows = _rows_of(UsageRollup.Dimension.MODEL, days, until, using)
    return [ModelFigures(model=key, **figures) for key, figures in _most(rows, "all_cost", limit)]


def _rows_of(
    dimension: UsageRollup.Dimension, days: int, until: date | None, using: str | None
) -> QuerySet[UsageRollup]:
    rows = UsageRollup.objects.using(bridge.database(using))
    return rows.filter(dimension=dimension, period__range=_span(days, until))


def _most(rows: QuerySet[UsageRollup], by: str, limit: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the keys with the most of one figure, and the sums of their figures."""
    most = list(
        rows.order_by()
        .values("key")
        .annotate(
            all_sessions=Sum("sessions"),
            all_messages=Sum("messages"),
            all_input=Sum("input_tokens"),
            all_output=Sum("output_tokens"),
            all_cost=Sum("cost"),
        )
        .order_by(F(by).desc(nulls_last=True), "-all_messages", "key")
        .values_list("key", "all_sessions", "all_messages", "all_input", "all_output", "all_cost")[
            :limit
        ]
    )
    latencies: dict[str, Counter[int]] = {key: Counter() for key, *_ in most}
    for key, histogram in rows.filter(key__in=latencies).values_list("key", "latencies"):
        latencies[key].update(_histogram(histogram))
    for key, *figures in most:
        yield key, {"latencies": latencies[key], **dict(zip(_COLUMNS, figures, strict=True))}


def by_owner(month: date, *, limit: int = 20, using: str | None = None) -> list[OwnerFigures]:
    """Read the figures of the owners with the most messages in a month.

    An index serves this order, so that the number of owners does not matter.

    Args:
        month: Any day of the month.
        limit: Maximum number of owners.
        using: The database alias.

    Returns:
        The owners, those with the most messages first.
    """
    rows = (
        UsageRollup.objects.using(bridge.database(using))
        .filter(dimension=UsageRollup.Dimension.OWNER, period=month.replace(day=1))
        .order_by("-messages")
        .values_list("key", "latencies", *_COLUMNS)
    )
    owners = [
        OwnerFigures(
            owner=key,
            latencies=_histogram(latencies),
            **dict(zip(_COLUMNS, figures, strict=True)),
        )
        for key, latencies, *figures in rows[:limit]
    ]
    return sorted(owners, key=lambda owner: (-owner.messages, owner.owner))


def total(figures: Iterable[Figures]) -> Figures:
    """Return the sum of figures.

    Args:
        figures: Figures of days, agents or owners.

    Returns:
        The sum; its percentiles are those of all latencies together.
    """
    items = list(figures)
    latencies: Counter[int] = Counter()
    for item in items:
        latencies.update(item.latencies)
    return Figures(
        sessions=sum(item.sessions for item in items),
        messages=sum(item.messages for item in items),
        input_tokens=add_known(*(item.input_tokens for item in items)),
        output_tokens=add_known(*(item.output_tokens for item in items)),
        cost=add_known(*(item.cost for item in items)),
        latencies=latencies,
    )


def counted_until(*, using: str | None = None) -> datetime | None:
    """Return the time until which everything is counted.

    Args:
        using: The database alias.

    Returns:
        The time; ``None`` if nothing was counted yet.
    """
    cursors = UsageCursor.objects.using(bridge.database(using))
    return cursors.values_list("counted_at", flat=True).first()


def first_day(*, using: str | None = None) -> date | None:
    """Return the first day with figures.

    Args:
        using: The database alias.

    Returns:
        The day; ``None`` if there are no figures.
    """
    rows = UsageRollup.objects.using(bridge.database(using))
    days = rows.filter(dimension=UsageRollup.Dimension.DAY).order_by("period")
    return days.values_list("period", flat=True).first()


def _span(days: int, until: date | None) -> tuple[date, date]:
    last = until or today()
    return last - timedelta(days - 1), last


def _day_figures(day: date, rows_by_day: Mapping[date, UsageRollup]) -> DayFigures:
    row = rows_by_day.get(day)
    if row is None:
        return DayFigures(day=day)
    return DayFigures(
        day=day,
        latencies=_histogram(row.latencies),
        **{name: getattr(row, name) for name in _COLUMNS},
    )


def _histogram(stored: Mapping[str, int]) -> dict[int, int]:
    return {int(number): count for number, count in stored.items()}
