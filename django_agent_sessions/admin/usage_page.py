"""What the usage page shows: how much was said, by which agents and for whom."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.utils.formats import date_format
from django.utils.translation import gettext as _

from django_agent_sessions import usage

from . import charts

RANGES = (7, 30, 90)
"""Over how many days the page can look."""

_COMMAND = "manage.py roll_up_agent_usage"
_MONTHS = 60
_SECONDS = 5.0
# Small, so that the time above is kept also where a batch is slow.
_BATCH = 5_000


@dataclass(frozen=True, slots=True)
class Choice:
    """What the page shows."""

    days: int
    month: date

    def query(self, **changes: Any) -> str:
        """Makes the query of a link."""
        days = changes.get("days", self.days)
        return "?" + urlencode({"days": days, "month": f"{changes.get('month', self.month):%Y-%m}"})


@dataclass(frozen=True, slots=True)
class Tile:
    """A figure for the whole range."""

    name: str
    value: str
    exact: str


@dataclass(frozen=True, slots=True)
class Rank:
    """A row of the agents' or the owners' table."""

    name: str
    known: bool
    bar: str
    cells: list[str]


def shown(asked: Mapping[str, str]) -> dict[str, Any]:
    """Reads what the page shows."""
    months = _months(usage.first_day())
    choice = _choice(asked, months)
    return {
        "choice": choice,
        "ranges": [(days, choice.query(days=days)) for days in RANGES],
        "months": [(f"{month:%Y-%m}", _month_name(month), month) for month in months],
        "counted_until": usage.counted_until(),
        **_figures(choice),
    }


def count_on(request: HttpRequest) -> str:
    """Counts what was said since the last time, for some seconds, and tells the user."""
    counted = usage.roll_up(seconds=_SECONDS, batch=_BATCH)
    text = _("%(messages)s messages and %(sessions)s sessions were counted.") % {
        "messages": charts.whole(counted.messages),
        "sessions": charts.whole(counted.sessions),
    }
    if counted.complete:
        messages.success(request, text)
    else:
        more = _("There are more: press again, or run %s.") % _COMMAND
        messages.warning(request, f"{text} {more}")
    return _choice(request.POST, _months(usage.first_day())).query()


# --- what is chosen -------------------------------------------------------------------------------


def _choice(asked: Mapping[str, str], months: Sequence[date]) -> Choice:
    days = next((days for days in RANGES if str(days) == asked.get("days")), 30)
    month = next((m for m in months if f"{m:%Y-%m}" == asked.get("month")), months[0])
    return Choice(days, month)


def _months(first: date | None) -> list[date]:
    """This month, and those before it back to the first that there are figures of."""
    month = usage.today().replace(day=1)
    oldest = (first or month).replace(day=1)
    found = [month]
    while month > oldest and len(found) < _MONTHS:
        month = month.replace(
            year=month.year - (month.month == 1), month=(month.month - 2) % 12 + 1
        )
        found.append(month)
    return found


def _month_name(month: date) -> str:
    return date_format(month, "YEAR_MONTH_FORMAT")


# --- what is shown --------------------------------------------------------------------------------


def _figures(choice: Choice) -> dict[str, Any]:
    days = usage.daily(choice.days)
    agents = usage.by_agent(choice.days)
    owners = usage.by_owner(choice.month)
    return {
        "tiles": _tiles(usage.total(days)),
        "charts": _charts(days),
        "agents": _agents(agents),
        "owners": _owners(owners),
        "month_name": _month_name(choice.month),
    }


def _tiles(total: usage.Figures) -> list[Tile]:
    def counted(name: str, value: int) -> Tile:
        return Tile(name, charts.compact(value), charts.whole(value))

    def waited(name: str, value: float | None) -> Tile:
        return Tile(name, charts.duration(value), charts.duration(value))

    return [
        counted(_("Sessions"), total.sessions),
        counted(_("Messages"), total.messages),
        counted(_("Tokens in"), total.input_tokens),
        counted(_("Tokens out"), total.output_tokens),
        waited(_("Latency p50"), total.p50),
        waited(_("Latency p95"), total.p95),
    ]


def _charts(days: Sequence[usage.DayFigures]) -> list[charts.Chart]:
    axis = charts.Axis(
        _("Day"),
        [date_format(figures.day, "j M") for figures in days],
        [date_format(figures.day, "DATE_FORMAT") for figures in days],
    )

    def series(name: str, colour: str, read: Callable[[usage.DayFigures], Any]) -> charts.Series:
        return charts.Series(name, colour, [read(figures) for figures in days])

    sessions = series(_("Sessions"), "a", lambda day: day.sessions)
    said = series(_("Messages"), "a", lambda day: day.messages)
    tokens = [
        series(_("Tokens in"), "a", lambda day: day.input_tokens),
        series(_("Tokens out"), "b", lambda day: day.output_tokens),
    ]
    latency = [
        series(_("p50"), "a", lambda day: day.p50),
        series(_("p95"), "b", lambda day: day.p95),
    ]
    return [
        charts.bars("sessions", _("Sessions per day"), axis, [sessions], charts.compact),
        charts.bars("messages", _("Messages per day"), axis, [said], charts.compact),
        charts.bars("tokens", _("Tokens per day"), axis, tokens, charts.compact),
        charts.lines("latency", _("Latency of the models"), axis, latency, charts.duration),
    ]


def _agents(figures: Sequence[usage.AgentFigures]) -> list[Rank]:
    return [
        Rank(
            one.agent_id,
            True,
            charts.share(one.messages, figures[0].messages),
            _cells(one),
        )
        for one in figures
    ]


def _owners(figures: Sequence[usage.OwnerFigures]) -> list[Rank]:
    names = _names([one.owner for one in figures if one.owner])
    nobody, gone = _("nobody"), _("deleted user %s")
    return [
        Rank(
            names.get(one.owner) or (gone % one.owner if one.owner else nobody),
            one.owner in names,
            charts.share(one.messages, figures[0].messages),
            _cells(one),
        )
        for one in figures
    ]


def _cells(figures: usage.Figures) -> list[str]:
    counts = (figures.messages, figures.sessions, figures.input_tokens, figures.output_tokens)
    waited = (figures.p50, figures.p95)
    return [*map(charts.whole, counts), *map(charts.duration, waited)]


def _names(keys: Sequence[str]) -> dict[str, str]:
    """The names of users, by their keys as text; one statement."""
    user = get_user_model()
    known = []
    for key in keys:
        try:
            known.append(user._meta.pk.to_python(key))
        except ValidationError:
            # The project has changed its users since: the key is none of theirs.
            continue
    rows = user._default_manager.filter(pk__in=known)
    return {str(pk): str(name) for pk, name in rows.values_list("pk", user.USERNAME_FIELD)}
