"""The context of the usage page: totals, charts and tables of some days."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from django.contrib import messages
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from django_agent_sessions import usage

from . import charts
from .formatting import (
    exact_cost,
    format_compact,
    format_cost,
    format_duration,
    format_integer,
    format_tokens,
    has_prices,
    moment_tag,
)
from .usage_range import UsageRange, read_range
from .usage_tables import UsageTables, format_change

_COMMAND = "manage.py agent_sessions_roll_up_usage"
_SECONDS = 5.0
# Small batches keep to the time limit on slow databases, too.
_BATCH = 5_000
# A day is drawn with the seven before it.
_DRAWN_BEFORE = 7

_Write = Callable[[Any], str]


@dataclass(frozen=True, slots=True)
class Tile:
    """A figure of the selected days, and of those before."""

    name: str
    value: str
    exact: str
    change: str
    before: str


def usage_context(request: HttpRequest) -> dict[str, Any]:
    """Return the template context for the query parameters."""
    shown, counted_until = read_range(request.GET), usage.counted_until()
    context = {
        "shown": shown,
        "today": usage.today(),
        "counted_until": counted_until,
        "begins": moment_tag(usage.midnight(shown.first)),
    }
    return context | _figures_context(request, shown) if counted_until else context


def update_usage(request: HttpRequest) -> str:
    """Roll up new messages for a few seconds, report the result and return a query string."""
    counted = usage.roll_up(seconds=_SECONDS, batch=_BATCH)
    text = _("%(messages)s messages and %(sessions)s sessions were counted.") % {
        "messages": format_integer(counted.messages),
        "sessions": format_integer(counted.sessions),
    }
    if counted.complete:
        messages.success(request, text)
    else:
        more = _("More remain: press “Update now” again, or run %s.") % _COMMAND
        messages.warning(request, f"{text} {more}")
    return read_range(request.POST).query()


def _figures_context(request: HttpRequest, shown: UsageRange) -> dict[str, Any]:
    drawn = shown.days + (_DRAWN_BEFORE if shown.days == 1 else 0)
    days = usage.daily(max(drawn, shown.days + shown.before), until=shown.last)
    before = usage.total(days[-shown.days - shown.before : -shown.days])
    tables = UsageTables(request, shown, compared=bool(before.messages))
    return {
        "tiles": _tiles(usage.total(days[-shown.days :]), before, shown.divisor),
        "charts": _charts(shown, days[-drawn:]),
        "growth": tables.growth() if before.messages else None,
        "tables": [table for table in (tables.sessions(), *tables.rankings()) if table],
        "has_prices": has_prices(),
    }


def _tiles(total: usage.Figures, before: usage.Figures, divisor: int) -> list[Tile]:
    def tile(name: str, read: Callable[[usage.Figures], Any], write: _Write, exact: _Write) -> Tile:
        now, then = read(total), read(before)
        # Sums of several days are compared by their average; percentiles as they are.
        then = then if then is None or isinstance(then, float) else round(then / divisor)
        change = format_change(now, then) if before.messages else ""
        return Tile(name, write(now), exact(now), change, write(then))

    def known(name: str) -> Callable[[usage.Figures], int | None]:
        # Without messages it is zero; without a report of an SDK it is unknown.
        return lambda figures: getattr(figures, name) if figures.messages else 0

    def tokens(value: int | None) -> str:
        return format_tokens(None) if value is None else format_compact(value)

    cost = tile(_("Cost"), known("cost"), format_cost, exact_cost)
    return [
        *([cost] if has_prices() else []),
        tile(
            pgettext("agent", "Sessions"), lambda one: one.sessions, format_compact, format_integer
        ),
        tile(_("Messages"), lambda one: one.messages, format_compact, format_integer),
        tile(_("Errors"), lambda one: one.errors, format_compact, format_integer),
        tile(_("Tokens in"), known("input_tokens"), tokens, format_tokens),
        *(
            tile(name, known(column), tokens, format_tokens)
            for name, column in (
                (_("Of these read from cache"), "cache_read_tokens"),
                (_("Of these written to cache"), "cache_write_tokens"),
            )
            if getattr(total, column) is not None
        ),
        tile(_("Tokens out"), known("output_tokens"), tokens, format_tokens),
        tile(_("Median latency"), lambda one: one.p50, format_duration, format_duration),
        tile(_("Latency, 95th percentile"), lambda one: one.p95, format_duration, format_duration),
    ]


def _charts(shown: UsageRange, days: Sequence[usage.DayFigures]) -> list[charts.Chart]:
    dates: list[date] = [figures.day for figures in days]
    axis = charts.Axis(_("Day"), [*map(str, dates)], [*map(shown.day_query, dates)])
    ratings = usage.daily_ratings(len(days), until=shown.last)

    def series(name: str, colour: str, read: Callable[[Any], Any], of: Any = days) -> charts.Series:
        return charts.Series(name, colour, [read(figures) for figures in of])

    tokens = [
        series(_("Tokens in"), "a", lambda day: day.input_tokens or 0),
        series(_("Tokens out"), "b", lambda day: day.output_tokens or 0),
    ]
    latency = [
        series(_("Median"), "a", lambda day: day.p50),
        series(_("95th percentile"), "b", lambda day: day.p95),
    ]
    feedback = [
        series(_("Good"), "a", lambda day: day.good, ratings),
        series(_("Bad"), "b", lambda day: day.bad, ratings),
    ]
    messages = [series(_("Messages"), "a", lambda day: day.messages)]
    errors = [series(_("Errors"), "b", lambda day: day.errors)]
    sessions = [series(pgettext("agent", "Sessions"), "a", lambda day: day.sessions)]
    found = [
        charts.bar_chart("messages", _("Messages per day"), axis, messages, format_compact),
        charts.bar_chart("errors", _("Errors per day"), axis, errors, format_compact),
        charts.bar_chart("sessions", _("Sessions per day"), axis, sessions, format_compact),
        charts.bar_chart("tokens", _("Tokens per day"), axis, tokens, format_compact),
        charts.line_chart("latency", _("Model latency"), axis, latency, format_duration),
        charts.bar_chart("feedback", _("Feedback per day"), axis, feedback, format_compact),
    ]
    if has_prices():
        costs = [series(_("Cost"), "a", lambda day: day.cost)]
        found.insert(0, charts.bar_chart("cost", _("Cost per day"), axis, costs, _axis_cost))
    return found


def _axis_cost(cost: float) -> str:
    return format_cost(round(cost))
