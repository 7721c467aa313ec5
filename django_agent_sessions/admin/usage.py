"""The usage page: how much was said, by which agents and for whom."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.formats import date_format
from django.utils.translation import gettext as _

from django_agent_sessions import usage
from django_agent_sessions.models import UsageRollup

from . import charts
from .permissions import Allowed, may

if TYPE_CHECKING:
    # Only the type checker knows whose admin it is.
    _ModelAdmin = admin.ModelAdmin[UsageRollup]
else:
    _ModelAdmin = admin.ModelAdmin

RANGES = (7, 30, 90)
"""Over how many days the page can look."""

_COMMAND = "manage.py roll_up_agent_usage"
_MONTHS = 60
_SECONDS = 5.0
# Small, so that the time above is kept also where a batch is slow.
_BATCH = 5_000


@dataclass(frozen=True, slots=True)
class Choice:
    """What the page shows.

    Attributes:
        days: The range of the charts.
        month: The first day of the owners' month.
    """

    days: int
    month: date

    def query(self, **changes: Any) -> str:
        """Makes the query of a link.

        Args:
            **changes: What is to be different: ``days``, or ``month`` as a date.

        Returns:
            The query, with its question mark.
        """
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


class UsageAdmin(_ModelAdmin):
    """One page instead of a list of rows; it changes nothing but the progress of the count."""

    def has_view_permission(self, request: HttpRequest, obj: UsageRollup | None = None) -> bool:
        """Takes ``view_usagerollup`` itself; a permission to change does not stand in for it."""
        return may(request, Allowed.VIEW_USAGE)

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Nobody adds: the roll-up does."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: UsageRollup | None = None) -> bool:
        """Nobody changes."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: UsageRollup | None = None) -> bool:
        """Nobody deletes."""
        return False

    def get_urls(self) -> list[URLPattern]:
        """Only the page and its button: single rows have no page."""
        name = "agent_sessions_usagerollup"
        wrap = self.admin_site.admin_view
        return [
            path("", wrap(self.changelist_view), name=f"{name}_changelist"),
            path("update/", wrap(self.update_view), name=f"{name}_update"),
        ]

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> TemplateResponse:
        """Shows the page.

        Args:
            request: The request; ``days`` and ``month`` choose what is shown.
            extra_context: Further values for the template.

        Returns:
            The page.

        Raises:
            PermissionDenied: The user may not see usage.
        """
        if not self.has_view_permission(request):
            raise PermissionDenied
        months = _months(usage.first_day())
        choice = _choice(request.GET, months)
        context = {
            **self.admin_site.each_context(request),
            "title": _("Usage"),
            "opts": self.opts,
            "choice": choice,
            "ranges": [(days, choice.query(days=days)) for days in RANGES],
            "months": [(f"{month:%Y-%m}", _month_name(month), month) for month in months],
            "counted_until": usage.counted_until(),
            "update_url": self._url("update"),
            **_figures(choice),
            **(extra_context or {}),
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, "agent_sessions/admin/usage.html", context)

    def update_view(self, request: HttpRequest) -> HttpResponse:
        """Counts what was said since the last time, for some seconds, and shows the page.

        Args:
            request: A POST.

        Returns:
            A redirect to the page.

        Raises:
            PermissionDenied: The user may not see usage.
        """
        if not self.has_view_permission(request):
            raise PermissionDenied
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
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
        choice = _choice(request.POST, _months(usage.first_day()))
        return HttpResponseRedirect(self._url("changelist") + choice.query())

    def _url(self, name: str) -> str:
        return reverse(f"admin:agent_sessions_usagerollup_{name}", current_app=self.admin_site.name)


# --- what is chosen -------------------------------------------------------------------------------


def _choice(asked: Any, months: Sequence[date]) -> Choice:
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
