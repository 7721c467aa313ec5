"""Read figures by day, agent, model, namespace and owner, from the roll-up rows only."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Literal

from django.conf import settings
from django.db.models import F, Model, Q, QuerySet, Sum
from django.utils import timezone

from django_agent_sessions.db import bridge
from django_agent_sessions.db.loop_guard import sync_only
from django_agent_sessions.models import UsageCursor, UsageRollup
from django_agent_sessions.values.owners import owner_key
from django_agent_sessions.values.records import add_known
from django_agent_sessions.values.token_counts import TokenCounts

from .histograms import percentile
from .rollups import day_of, hour_of

_PERIOD = ("period", "hour")
_COLUMNS = ("sessions", "messages", "errors", *TokenCounts._fields, "cost")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Usage figures.

    Attributes:
        sessions: Number of started sessions; for an agent, number of conversations that it started.
        messages: Number of messages.
        errors: Number of messages that report an error.
        input_tokens: Number of input tokens that the SDKs reported; None if they reported none.
        output_tokens: Number of output tokens, or None.
        cache_read_tokens: Those of the input tokens that were read from a prompt cache, or None.
        cache_write_tokens: Those of the input tokens that were written to it, or None.
        cost: Their cost, in billionths of the currency of ``PRICES``; None if nothing that was
            counted has a price. See ``amount``.
        latencies: Number of latencies per bucket of the histogram.
    """

    sessions: int = 0
    messages: int = 0
    errors: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
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
class MonthFigures(Figures):
    """Figures of an owner in a month.

    Attributes:
        month: The first day of the month, in UTC.
    """

    month: date


@dataclass(frozen=True, slots=True, kw_only=True)
class DayFigures(Figures):
    """Figures of a day.

    Attributes:
        day: The day, in the current time zone.
    """

    day: date


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFigures(Figures):
    """Figures of an agent, a model, a namespace or an owner.

    Attributes:
        key: The agent's id, the model's name, the namespace, or the user's primary key as text,
            which is empty for sessions without an owner.
        messages_before: Number of messages in the days before; see ``top``.
        cost_before: Their cost, or None.
    """

    key: str
    messages_before: int = 0
    cost_before: int | None = None


def today() -> date:
    """Return the current day.

    Returns:
        The day in Django's current time zone; with ``USE_TZ = False`` that of the site's clock.
    """
    return _local(timezone.now()).date()


def midnight(day: date) -> datetime:
    """Return the time at which a day of the figures begins.

    Args:
        day: The day.

    Returns:
        Midnight in Django's current time zone; if that is not a full hour of UTC, the next full
        hour.
    """
    if not settings.USE_TZ:
        return datetime.combine(day, time())
    begin = datetime.combine(day, time(), timezone.get_current_timezone()).astimezone(UTC)
    return begin + (hour_of(begin) - begin) % timedelta(hours=1)


def day_of_hour(moment: datetime) -> date:
    """Return the day, in the current time zone, to which the figures of a time's hour belong."""
    return _local(hour_of(moment)).date()


def _local(moment: datetime) -> datetime:
    return moment if timezone.is_naive(moment) else timezone.localtime(moment)


def span(days: int, until: date | None) -> tuple[date, date]:
    """Return the first and the last of a number of days; by default until today."""
    last = until or today()
    return last - timedelta(days - 1), last


@sync_only
def daily(days: int, *, until: date | None = None, using: str | None = None) -> list[DayFigures]:
    """Read the figures of each day.

    Args:
        days: Number of days.
        until: The last day; by default today.
        using: The database alias.

    Returns:
        One entry per day, oldest first, including days without messages.
    """
    first, _last = span(days, until)
    begins = [midnight(first + timedelta(number)) for number in range(days + 1)]
    is_utc = all(begin.hour == 0 for begin in begins)
    rows = UsageRollup.objects.using(bridge.database(using)).filter(
        dimension=UsageRollup.Dimension.DAY if is_utc else UsageRollup.Dimension.HOUR,
        period__range=(begins[0].date(), begins[-1].date()),
        key="",
    )
    found: dict[date, list[Figures]] = defaultdict(list)
    names = ("latencies", *_COLUMNS)
    for period, hour, *figures in rows.values_list(*_PERIOD, *names):
        found[_day_of_row(period, hour)].append(Figures(**dict(zip(names, figures, strict=True))))
    known = (first + timedelta(number) for number in range(days))
    return [_day_figures(day, total(found[day])) for day in known]


@sync_only
def top(
    dimension: Literal["agent", "model", "namespace", "owner"],
    days: int,
    *,
    sort: Literal["messages", "cost"] = "messages",
    limit: int = 20,
    before: int = 0,
    latencies: int | None = None,
    until: date | None = None,
    using: str | None = None,
) -> list[KeyFigures]:
    """Read the figures of the agents, models, namespaces or owners with the highest figures.

    Agents with the same id are added up over all sessions. Models are those of messages whose model
    is known. Days of owners are in UTC; for a day that is over, only the 200 owners with the most
    messages and the 200 with the highest costs are known: see ``by_owner`` for all.

    Args:
        dimension: What to list.
        days: Number of days to add up.
        sort: The figure by which they are sorted; unknown costs come last.
        limit: Maximum number of entries.
        before: Number of preceding days, whose sums are ``messages_before`` and ``cost_before``.
        latencies: Number of entries whose latencies are read, from the first on; by default all.
        until: The last day; by default today.
        using: The database alias.

    Returns:
        The entries with the highest figures first.
    """
    first, last = span(days, until)
    kept = UsageRollup.Dimension("owner_day" if dimension == "owner" else dimension)
    begin = _utc_midnight if dimension == "owner" else midnight
    earlier, first_hour, end = map(begin, (first - timedelta(before), first, last + timedelta(1)))
    now = _within(kept, first_hour, end)
    rows = UsageRollup.objects.using(bridge.database(using))
    compared = rows.filter(_within(kept, earlier, first_hour) | now)
    entries = list(_sums(compared, first_hour, sort)[:limit])
    histograms: dict[str, Counter[int]] = {key: Counter() for key, *_ in entries[:latencies]}
    stored = rows.filter(now, key__in=histograms)
    for key, histogram in stored.order_by().values_list("key", "latencies"):
        histograms[key].update(_histogram(histogram))
    return [
        KeyFigures(
            key=key,
            latencies=histograms.get(key, {}),
            messages_before=messages_before or 0,
            cost_before=cost_before,
            **dict(zip(_COLUMNS, figures, strict=True)),
        )
        for key, messages_before, cost_before, *figures in entries
    ]


def _within(dimension: UsageRollup.Dimension, begin: datetime, end: datetime) -> Q:
    """Return the condition of the rows between two hours: whole days, and hours at both ends."""
    if begin == end:
        return Q(pk__in=())
    hours = UsageRollup.Dimension.of_hours().get(dimension)
    first_whole = (begin + timedelta(hours=23)).date()
    rows = Q(dimension=dimension, period__gte=first_whole, period__lt=end.date())
    if begin.hour:
        rows |= Q(dimension=hours, period=begin.date(), hour__gte=begin.hour)
    if end.hour:
        rows |= Q(dimension=hours, period=end.date(), hour__lt=end.hour)
    return rows


def _sums(rows: QuerySet[UsageRollup], first: datetime, sort: str) -> QuerySet[Any, Any]:
    """Return the sums by key from an hour on, and before it."""
    day = first.date()
    now = Q(period__gt=day) | Q(period=day, hour__gte=first.hour)
    sums = {f"all_{name}": Sum(name, filter=now) for name in _COLUMNS}
    earlier = {f"{name}_before": Sum(name, filter=~now) for name in ("messages", "cost")}
    summed: Any = rows.order_by().values("key")
    return (  # type: ignore[no-any-return] # the type checker does not know the sums' names
        summed.annotate(**earlier, **sums)
        .filter(all_messages__isnull=False)
        .order_by(F(f"all_{sort}").desc(nulls_last=True), "-all_messages", "key")
        .values_list("key", *earlier, *sums)
    )


@sync_only
def by_owner(month: date, *, limit: int = 20, using: str | None = None) -> list[KeyFigures]:
    """Read the figures of the owners with the most messages in a month.

    All owners are counted. An index has this order, so their number does not affect the speed.

    Args:
        month: Any day of the month, which is counted in UTC.
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
        KeyFigures(
            key=key,
            latencies=_histogram(latencies),
            **dict(zip(_COLUMNS, figures, strict=True)),
        )
        for key, latencies, *figures in rows[:limit]
    ]
    return sorted(owners, key=lambda owner: (-owner.messages, owner.key))


@sync_only
def by_month(owner: Any, months: int = 12, *, using: str | None = None) -> list[MonthFigures]:
    """Read the figures of an owner in the last months.

    Args:
        owner: The user, or the user's primary key.
        months: Number of months in UTC, up to the current one.
        using: The database alias.

    Returns:
        The months with usage of the owner, newest first.
    """
    key = owner_key(owner) if isinstance(owner, Model) else owner
    month, periods = day_of(timezone.now()).replace(day=1), []
    for _ in range(months):
        periods.append(month)
        month = (month - timedelta(1)).replace(day=1)
    # Each month is a seek in the unique index.
    rows = UsageRollup.objects.using(bridge.database(using)).filter(
        dimension=UsageRollup.Dimension.OWNER, period__in=periods, key=str(key)
    )
    return [
        MonthFigures(
            month=row.period,
            latencies=_histogram(row.latencies),
            **{name: getattr(row, name) for name in _COLUMNS},
        )
        for row in rows.order_by("-period")
    ]


def total(figures: Iterable[Figures]) -> Figures:
    """Return the sum of figures.

    Args:
        figures: Figures of days or of entries.

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
        errors=sum(item.errors for item in items),
        latencies=latencies,
        **{
            name: add_known(*(getattr(item, name) for item in items))
            for name in (*TokenCounts._fields, "cost")
        },
    )


@sync_only
def counted_until(*, using: str | None = None) -> datetime | None:
    """Return the time up to which everything has been counted.

    Args:
        using: The database alias.

    Returns:
        The time; ``None`` if nothing was counted yet.
    """
    cursors = UsageCursor.objects.using(bridge.database(using))
    return cursors.values_list("counted_at", flat=True).first()


@sync_only
def first_day(*, using: str | None = None) -> date | None:
    """Return the first day with figures.

    Args:
        using: The database alias.

    Returns:
        The day; ``None`` if there are no figures.
    """
    rows = UsageRollup.objects.using(bridge.database(using))
    hours = rows.filter(dimension=UsageRollup.Dimension.HOUR).order_by(*_PERIOD)
    first = hours.values_list(*_PERIOD).first()
    return first and _day_of_row(*first)


def _utc_midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC if settings.USE_TZ else None)


def _day_of_row(period: date, hour: int) -> date:
    return day_of_hour(_utc_midnight(period).replace(hour=hour))


def _day_figures(day: date, figures: Figures) -> DayFigures:
    # The keys of stored histograms are text, and converted here once for each day.
    latencies = _histogram(figures.latencies)
    return DayFigures(
        day=day, latencies=latencies, **{name: getattr(figures, name) for name in _COLUMNS}
    )


def _histogram(stored: Mapping[Any, int]) -> dict[int, int]:
    return {int(number): count for number, count in stored.items()}
