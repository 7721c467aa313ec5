"""Reading the figures: by day, by agent, by owner; from the roll-up only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta

from django.db.models import Sum
from django.utils import timezone

from django_agent_sessions import bridge
from django_agent_sessions.models import UsageCursor, UsageRollup

from .latencies import percentile
from .tallies import day_of

_COLUMNS = ("sessions", "messages", "input_tokens", "output_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """How much was said.

    Attributes:
        sessions: How many sessions were started; for an agent, how many conversations it began.
        messages: How many messages were written.
        input_tokens: Tokens that the models read.
        output_tokens: Tokens that the models wrote.
        latencies: How many latencies fell into each bucket of the histogram.
    """

    sessions: int = 0
    messages: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    latencies: Mapping[int, int] = field(default_factory=dict, repr=False)

    @property
    def p50(self) -> float | None:
        """The median latency in milliseconds, to 5 %; ``None`` if none was reported."""
        return percentile(self.latencies, 0.5)

    @property
    def p95(self) -> float | None:
        """The latency in milliseconds that 95 % do not exceed, to 5 %."""
        return percentile(self.latencies, 0.95)


@dataclass(frozen=True, slots=True, kw_only=True)
class DayFigures(Figures):
    """A day's figures.

    Attributes:
        day: The day, in UTC.
    """

    day: date


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFigures(Figures):
    """An agent's figures, over all sessions that have an agent of this id.

    Attributes:
        agent_id: The agent.
    """

    agent_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerFigures(Figures):
    """An owner's figures.

    Attributes:
        owner: The user's primary key as text; empty for sessions that nobody owns.
    """

    owner: str


def today() -> date:
    """Tells which day it is for the figures: the day in UTC.

    Returns:
        The day; without time zones (``USE_TZ = False``) the one on the clock.
    """
    return day_of(timezone.now())


def daily(days: int, *, until: date | None = None, using: str | None = None) -> list[DayFigures]:
    """Reads each day's figures.

    Args:
        days: How many days.
        until: The last of them; by default today.
        using: The alias of the database.

    Returns:
        One for each day, the oldest first, also for days on which nothing was said.
    """
    first, last = _span(days, until)
    rows = UsageRollup.objects.using(bridge.database(using)).filter(
        dimension=UsageRollup.Dimension.DAY, period__range=(first, last), key=""
    )
    there = {row.period: row for row in rows}
    return [_of_day(first + timedelta(number), there) for number in range(days)]


def by_agent(
    days: int, *, limit: int = 20, until: date | None = None, using: str | None = None
) -> list[AgentFigures]:
    """Reads the figures of the agents that said most.

    Args:
        days: Over how many days.
        limit: How many agents.
        until: As for :func:`daily`.
        using: As for :func:`daily`.

    Returns:
        The agents with most messages, those first.
    """
    rows = UsageRollup.objects.using(bridge.database(using)).filter(
        dimension=UsageRollup.Dimension.AGENT, period__range=_span(days, until)
    )
    most = list(
        rows.order_by()
        .values("key")
        .annotate(
            all_sessions=Sum("sessions"),
            all_messages=Sum("messages"),
            all_input=Sum("input_tokens"),
            all_output=Sum("output_tokens"),
        )
        .order_by("-all_messages", "key")
        .values_list("key", "all_sessions", "all_messages", "all_input", "all_output")[:limit]
    )
    latencies: dict[str, Counter[int]] = {key: Counter() for key, *_ in most}
    for key, histogram in rows.filter(key__in=latencies).values_list("key", "latencies"):
        latencies[key].update(_histogram(histogram))
    return [
        AgentFigures(
            agent_id=key, latencies=latencies[key], **dict(zip(_COLUMNS, figures, strict=True))
        )
        for key, *figures in most
    ]


def by_owner(month: date, *, limit: int = 20, using: str | None = None) -> list[OwnerFigures]:
    """Reads the figures of those for whom most was said in a month.

    An index is in this order: it takes no longer for a million owners.

    Args:
        month: Any day of the month.
        limit: How many owners.
        using: As for :func:`daily`.

    Returns:
        The owners with most messages, those first.
    """
    rows = (
        UsageRollup.objects.using(bridge.database(using))
        .filter(dimension=UsageRollup.Dimension.OWNER, period=month.replace(day=1))
        .order_by("-messages")
        .values_list("key", "latencies", *_COLUMNS)
    )
    found = [
        OwnerFigures(
            owner=key,
            latencies=_histogram(latencies),
            **dict(zip(_COLUMNS, figures, strict=True)),
        )
        for key, latencies, *figures in rows[:limit]
    ]
    return sorted(found, key=lambda owner: (-owner.messages, owner.owner))


def total(figures: Iterable[Figures]) -> Figures:
    """Adds figures up.

    Args:
        figures: Those of some days, agents or owners.

    Returns:
        Their sum; its percentiles are those of all latencies together.
    """
    sums = dict.fromkeys(_COLUMNS, 0)
    latencies: Counter[int] = Counter()
    for one in figures:
        for name in _COLUMNS:
            sums[name] += getattr(one, name)
        latencies.update(one.latencies)
    return Figures(**sums, latencies=latencies)


def counted_until(*, using: str | None = None) -> datetime | None:
    """Tells until when everything is in the figures.

    Args:
        using: As for :func:`daily`.

    Returns:
        The time; ``None`` if nothing was counted yet.
    """
    cursors = UsageCursor.objects.using(bridge.database(using))
    return cursors.values_list("counted_at", flat=True).first()


def first_day(*, using: str | None = None) -> date | None:
    """Tells the first day that there are figures of.

    Args:
        using: As for :func:`daily`.

    Returns:
        The day; ``None`` if there are none.
    """
    rows = UsageRollup.objects.using(bridge.database(using))
    days = rows.filter(dimension=UsageRollup.Dimension.DAY).order_by("period")
    return days.values_list("period", flat=True).first()


def _span(days: int, until: date | None) -> tuple[date, date]:
    last = until or today()
    return last - timedelta(days - 1), last


def _of_day(day: date, there: Mapping[date, UsageRollup]) -> DayFigures:
    row = there.get(day)
    if row is None:
        return DayFigures(day=day)
    return DayFigures(
        day=day,
        latencies=_histogram(row.latencies),
        **{name: getattr(row, name) for name in _COLUMNS},
    )


def _histogram(stored: Mapping[str, int]) -> dict[int, int]:
    return {int(number): count for number, count in stored.items()}
