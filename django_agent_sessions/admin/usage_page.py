"""The figures of the usage page: totals, charts, and tables by agent and by owner."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest
from django.utils.formats import date_format
from django.utils.translation import gettext as _

from django_agent_sessions import usage

from . import charts
from .formatting import (
    DAY,
    exact_cost,
    format_compact,
    format_cost,
    format_duration,
    format_integer,
    format_tokens,
    has_prices,
)
from .user_names import user_names

RANGES = (7, 30, 90)
"""The numbers of days to choose from."""

_COMMAND = "manage.py roll_up_agent_usage"
_MAX_MONTHS = 60
_SECONDS = 5.0
# Small batches keep to the time limit on slow databases, too.
_BATCH = 5_000


@dataclass(frozen=True, slots=True)
class UsageSelection:
    """The selected number of days and month."""

    days: int
    month: date

    def query(self, **changes: Any) -> str:
        """Return the query string of a link."""
        days = changes.get("days", self.days)
        return "?" + urlencode({"days": days, "month": f"{changes.get('month', self.month):%Y-%m}"})


@dataclass(frozen=True, slots=True)
class Tile:
    """A figure for the selected days."""

    name: str
    value: str
    exact: str


@dataclass(frozen=True, slots=True)
class UsageRow:
    """A row of the table of agents or owners."""

    name: str
    known: bool
    bar: str
    cells: list[str]


def usage_context(params: Mapping[str, str]) -> dict[str, Any]:
    """Return the template context for the query parameters."""
    months = _months(usage.first_day())
    choice = _read_choice(params, months)
    return {
        "choice": choice,
        "ranges": [(days, choice.query(days=days)) for days in RANGES],
        "months": [(f"{month:%Y-%m}", _month_name(month), month) for month in months],
        "counted_until": usage.counted_until(),
        **_figures_context(choice),
    }


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
    return _read_choice(request.POST, _months(usage.first_day())).query()


# --- selection ------------------------------------------------------------------------------------


def _read_choice(params: Mapping[str, str], months: Sequence[date]) -> UsageSelection:
    days = next((days for days in RANGES if str(days) == params.get("days")), 30)
    month = next((m for m in months if f"{m:%Y-%m}" == params.get("month")), months[0])
    return UsageSelection(days, month)


def _months(first: date | None) -> list[date]:
    """Return the current month and the earlier ones with figures, newest first."""
    month = usage.today().replace(day=1)
    oldest = (first or month).replace(day=1)
    months = [month]
    while month > oldest and len(months) < _MAX_MONTHS:
        month = month.replace(
            year=month.year - (month.month == 1), month=(month.month - 2) % 12 + 1
        )
        months.append(month)
    return months


def _month_name(month: date) -> str:
    return date_format(month, "YEAR_MONTH_FORMAT")


# --- figures --------------------------------------------------------------------------------------


def _figures_context(choice: UsageSelection) -> dict[str, Any]:
    days = usage.daily(choice.days)
    agents = usage.by_agent(choice.days)
    owners = usage.by_owner(choice.month)
    models = usage.by_model(choice.days) if has_prices() else []
    return {
        "tiles": _tiles(usage.total(days)),
        "charts": _charts(days),
        "agents": _agent_rows(agents),
        "owners": _owner_rows(owners),
        "models": _model_rows(models),
        "has_prices": has_prices(),
        "month_name": _month_name(choice.month),
    }


def _tiles(total: usage.Figures) -> list[Tile]:
    def count_tile(name: str, value: int) -> Tile:
        return Tile(name, format_compact(value), format_integer(value))

    def token_tile(name: str, value: int | None) -> Tile:
        # Without messages it is zero; without a report of an SDK it is unknown.
        if value is None and total.messages:
            return Tile(name, format_tokens(None), format_tokens(None))
        return count_tile(name, value or 0)

    def duration_tile(name: str, value: float | None) -> Tile:
        return Tile(name, format_duration(value), format_duration(value))

    def cost_tile(name: str, cost: int | None) -> Tile:
        known = cost if cost is not None or total.messages else 0
        return Tile(name, format_cost(known), exact_cost(known))

    tiles = [
        count_tile(_("Sessions"), total.sessions),
        count_tile(_("Messages"), total.messages),
        token_tile(_("Tokens in"), total.input_tokens),
        token_tile(_("Tokens out"), total.output_tokens),
        duration_tile(_("Latency p50"), total.p50),
        duration_tile(_("Latency p95"), total.p95),
    ]
    return [*tiles, cost_tile(_("Cost"), total.cost)] if has_prices() else tiles


def _charts(days: Sequence[usage.DayFigures]) -> list[charts.Chart]:
    axis = charts.Axis(
        _("Day"),
        [date_format(figures.day, "j M") for figures in days],
        [date_format(figures.day, DAY) for figures in days],
    )

    def series(name: str, colour: str, read: Callable[[usage.DayFigures], Any]) -> charts.Series:
        return charts.Series(name, colour, [read(figures) for figures in days])

    session_series = series(_("Sessions"), "a", lambda day: day.sessions)
    message_series = series(_("Messages"), "a", lambda day: day.messages)
    tokens = [
        series(_("Tokens in"), "a", lambda day: day.input_tokens or 0),
        series(_("Tokens out"), "b", lambda day: day.output_tokens or 0),
    ]
    latency = [
        series(_("p50"), "a", lambda day: day.p50),
        series(_("p95"), "b", lambda day: day.p95),
    ]
    shown = [
        charts.bar_chart("sessions", _("Sessions per day"), axis, [session_series], format_compact),
        charts.bar_chart("messages", _("Messages per day"), axis, [message_series], format_compact),
        charts.bar_chart("tokens", _("Tokens per day"), axis, tokens, format_compact),
        charts.line_chart("latency", _("Model latency"), axis, latency, format_duration),
    ]
    if has_prices():
        costs = [series(_("Cost"), "a", lambda day: day.cost)]
        shown.append(charts.bar_chart("cost", _("Cost per day"), axis, costs, _axis_cost))
    return shown


def _axis_cost(cost: float) -> str:
    return format_cost(round(cost))


def _agent_rows(figures: Sequence[usage.AgentFigures]) -> list[UsageRow]:
    return [
        UsageRow(
            agent.agent_id,
            True,
            charts.bar_width(agent.messages, figures[0].messages),
            _cells(agent),
        )
        for agent in figures
    ]


def _model_rows(figures: Sequence[usage.ModelFigures]) -> list[UsageRow]:
    most = max((model.cost or 0 for model in figures), default=0)
    return [
        UsageRow(
            model.model,
            True,
            charts.bar_width(model.cost or 0, most),
            # A session has no model of its own.
            [cell for number, cell in enumerate(_cells(model)) if number != 1],
        )
        for model in figures
    ]


def _owner_rows(figures: Sequence[usage.OwnerFigures]) -> list[UsageRow]:
    names = user_names([owner.owner for owner in figures if owner.owner])
    no_owner, deleted = _("no owner"), _("deleted user %s")
    return [
        UsageRow(
            names.get(owner.owner) or (deleted % owner.owner if owner.owner else no_owner),
            owner.owner in names,
            charts.bar_width(owner.messages, figures[0].messages),
            _cells(owner),
        )
        for owner in figures
    ]


def _cells(figures: usage.Figures) -> list[str]:
    counts = (figures.messages, figures.sessions)
    tokens = (figures.input_tokens, figures.output_tokens)
    latencies = (figures.p50, figures.p95)
    return [
        *map(format_integer, counts),
        *map(format_tokens, tokens),
        *map(format_duration, latencies),
        *([format_cost(figures.cost)] if has_prices() else []),
    ]
