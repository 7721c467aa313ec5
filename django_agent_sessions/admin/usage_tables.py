"""The tables of the usage page: agents, models, owners, namespaces and sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from django.conf import settings
from django.db.models import F
from django.http import HttpRequest
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext

from django_agent_sessions import usage
from django_agent_sessions.content.dialects import displayable
from django_agent_sessions.db import bridge
from django_agent_sessions.models import Session
from django_agent_sessions.models.users import user_names
from django_agent_sessions.queries.titles import with_readable_titles

from . import charts
from .formatting import (
    MINUTE,
    format_cost,
    format_duration,
    format_input,
    format_integer,
    format_moment,
    format_tokens,
    has_prices,
    shown_title,
)
from .permissions import SessionPermission, reach
from .usage_range import UsageRange

Dimension = Literal["agent", "model", "owner", "namespace"]

DIMENSIONS: dict[Dimension, tuple[Any, Any]] = {
    "agent": (gettext_lazy("Agents"), gettext_lazy("Agent")),
    "model": (gettext_lazy("Models"), gettext_lazy("Model")),
    "owner": (gettext_lazy("Owners"), gettext_lazy("Owner")),
    "namespace": (gettext_lazy("Namespaces"), gettext_lazy("Namespace")),
}

SHOWN = 20
"""Rows of a table."""

SESSION_DAYS = 7
"""The longest range whose sessions are listed."""

NEWEST_SESSIONS = 20_000
"""Sessions that are compared, from the most recently active one on."""

_COMPARED = 100
_GROWN = 3


@dataclass(frozen=True, slots=True)
class UsageColumn:
    """The head of a column, with a link that sorts by it."""

    name: str
    link: str = ""
    sorted: bool = False


@dataclass(frozen=True, slots=True)
class UsageRow:
    """A row of a table; the bar is a width in percent."""

    name: str
    cells: Sequence[str]
    bar: str
    link: str = ""
    known: bool = True


@dataclass(frozen=True, slots=True)
class UsageTable:
    """The context of the template ``usage_table.html``."""

    slug: str
    title: str
    columns: Sequence[UsageColumn]
    rows: Sequence[UsageRow]
    note: str = ""
    empty: str = ""
    bars: bool = True


def format_change(now: float | None, before: float | None) -> str:
    """Return the relative change of a figure; empty if it is unknown."""
    if now is None or not before:
        return ""
    percent = round(100 * (now / before - 1))
    sign = "▲" if percent > 0 else "▼" if percent < 0 else "±"
    return _("%(sign)s %(percent)s %%") % {"sign": sign, "percent": format_integer(abs(percent))}


def utc_note() -> str:
    """Return what tables of owners say of their days and months."""
    return _("Days and months of owners are in UTC.") if settings.USE_TZ else ""


def session_columns() -> list[UsageColumn]:
    """Return the columns of a table of sessions."""
    names = _("Session"), _("Last activity"), _("Messages"), _("Tokens in"), _("Tokens out")
    return [UsageColumn(name) for name in (*names, *([_("Cost")] if has_prices() else []))]


def session_row(session: Session, bar: str, link: str, *, readable: bool) -> UsageRow:
    """Return the row of a session; without its title, if the viewer may not read it."""
    name = shown_title(session, readable=readable)
    cells = [
        format_moment(session.last_activity_at, MINUTE),
        format_integer(session.message_count),
        *(format_input(session), format_tokens(session.output_tokens)),
        *([format_cost(session.cost)] if has_prices() else []),
    ]
    return UsageRow(name, cells, bar, link)


def figure_cells(one: usage.Figures, *, of_model: bool = False) -> list[str]:
    """Return the cells of figures: messages, errors, sessions, tokens, latency, costs if known.

    A model has no sessions of its own, and tools report most errors.
    """
    return [
        format_integer(one.messages),
        *([] if of_model else map(format_integer, (one.errors, one.sessions))),
        *(format_input(one), format_tokens(one.output_tokens)),
        *map(format_duration, (one.p50, one.p95)),
        *([format_cost(one.cost)] if has_prices() else []),
    ]


class UsageTables:
    """The tables of a range of days for a viewer."""

    def __init__(self, request: HttpRequest, shown: UsageRange, *, compared: bool) -> None:
        self._request, self._range, self._compared = request, shown, compared
        self._begin = usage.midnight(shown.first)
        self._end = usage.midnight(shown.last + timedelta(1))
        self._view = reach(request, SessionPermission.VIEW)
        by_cost = shown.sort == "cost"
        self._write = (lambda value: format_cost(round(value))) if by_cost else format_integer
        self._figures: dict[Dimension, list[usage.KeyFigures]] = {
            dimension: usage.top(
                dimension,
                shown.days,
                sort="cost" if by_cost else "messages",
                limit=_COMPARED,
                before=shown.before,
                latencies=SHOWN,
                until=shown.last,
            )
            for dimension in DIMENSIONS
        }
        self._ratings = usage.ratings_by(shown.days, until=shown.last)
        self._grown = {name: self._most_grown(name) for name in DIMENSIONS}
        owners = [*self._figures["owner"][:SHOWN], *self._grown["owner"]]
        self._owners = user_names({one.key for one in owners if one.key})

    def growth(self) -> UsageTable:
        """Return what grew most against the days before."""
        names = _("Before"), _("Now"), _("Growth"), pgettext("difference", "Change")
        most = max(
            (self._growth(one) for grown in self._grown.values() for one in grown), default=0
        )
        rows = [
            self._row(
                name,
                one,
                charts.bar_width(self._growth(one), most),
                [
                    str(DIMENSIONS[name][1]),
                    self._write(self._before(one)),
                    self._write(self._now(one)),
                    f"+{self._write(self._growth(one))}",
                    self._change(one),
                ],
            )
            for name, grown in self._grown.items()
            for one in grown
        ]
        title = _("Costs that grew most") if self._range.sort == "cost" else _("What grew most")
        columns = [UsageColumn(name) for name in (_("Name"), _("Kind"), *names)]
        return UsageTable("growth", title, columns, rows, empty=_("Nothing grew."))

    def rankings(self) -> list[UsageTable]:
        """Return a table for each dimension; models and namespaces only if there are any."""
        return [
            self._ranking(dimension, figures[:SHOWN])
            for dimension, figures in self._figures.items()
            if dimension in {"agent", "owner"} or any(one.key for one in figures)
        ]

    def sessions(self) -> UsageTable | None:
        """Return the sessions with the highest figures; None if the viewer sees no sessions."""
        if not self._view:
            return None
        columns, title = session_columns(), pgettext("agent", "Sessions")
        if self._range.days > SESSION_DAYS:
            text = _("Choose at most %s days to see the sessions with the highest figures.")
            return UsageTable("sessions", title, columns, [], empty=text % SESSION_DAYS)
        note = _(
            "Whole sessions whose last activity was on these days, of the %s most recent ones."
        ) % format_integer(NEWEST_SESSIONS)
        rows = self._session_rows()
        return UsageTable("sessions", title, columns, rows, note, _("No sessions on these days."))

    # --- figures ----------------------------------------------------------------------------------

    def _now(self, one: usage.KeyFigures | Session) -> float:
        messages = one.message_count if isinstance(one, Session) else one.messages
        return (one.cost or 0) if self._range.sort == "cost" else messages

    def _before(self, one: usage.KeyFigures) -> float:
        before = one.cost_before if self._range.sort == "cost" else one.messages_before
        return (before or 0) / self._range.divisor

    def _growth(self, one: usage.KeyFigures) -> float:
        return self._now(one) - self._before(one)

    def _change(self, one: usage.KeyFigures) -> str:
        new = self._compared and self._now(one) and not self._before(one)
        return _("new") if new else format_change(self._now(one), self._before(one)) or "–"

    def _most_grown(self, dimension: Dimension) -> list[usage.KeyFigures]:
        figures = sorted(self._figures[dimension], key=self._growth, reverse=True)[:_GROWN]
        return [one for one in figures if self._growth(one) > 0]

    # --- rows -------------------------------------------------------------------------------------

    def _ranking(self, dimension: Dimension, figures: Sequence[usage.KeyFigures]) -> UsageTable:
        title, name = DIMENSIONS[dimension]
        sessions = (
            _("Conversations started") if dimension == "agent" else pgettext("agent", "Sessions")
        )
        columns = [
            UsageColumn(name),
            self._sortable("messages", _("Messages")),
            *([] if dimension == "model" else map(UsageColumn, (_("Errors"), sessions))),
            *map(
                UsageColumn,
                (_("Tokens in"), _("Tokens out"), _("Median latency"), _("95th percentile")),
            ),
            *([self._sortable("cost", _("Cost"))] if has_prices() else []),
            UsageColumn(_("Good / bad")),
            UsageColumn(pgettext("difference", "Change")),
        ]
        most = max(map(self._now, figures), default=0)
        rows = [
            self._row(
                dimension, one, charts.bar_width(self._now(one), most), self._cells(dimension, one)
            )
            for one in figures
        ]
        return UsageTable(
            f"{dimension}s",
            title,
            columns,
            rows,
            utc_note() if dimension == "owner" else "",
            _("No messages on these days."),
        )

    def _sortable(self, sort: str, name: str) -> UsageColumn:
        return UsageColumn(name, self._range.query(sort=sort), sort == self._range.sort)

    def _cells(self, dimension: Dimension, one: usage.KeyFigures) -> list[str]:
        rated, ratings = "–", self._ratings[dimension].get(one.key)
        if ratings:
            rated = f"{format_integer(ratings.good)} / {format_integer(ratings.bad)}"
        return [*figure_cells(one, of_model=dimension == "model"), rated, self._change(one)]

    def _row(
        self, dimension: Dimension, one: usage.KeyFigures, bar: str, cells: Sequence[str]
    ) -> UsageRow:
        """Return a row whose name links to the list of its sessions, if that has such a filter."""
        key, name, condition, known = one.key, displayable(one.key), {}, True
        if dimension == "agent":
            condition = {"agent": key} if key else {}
        elif dimension == "namespace":
            name, condition = name or _("(none)"), {"namespace": key}
        elif dimension == "owner":
            known = key in self._owners
            name = self._owners.get(key) or (_("deleted user %s") % name if key else _("no owner"))
            condition = {"owner": key} if known else {} if key else {"owned": "no"}
        link = self._list_url(condition) if condition and self._view else ""
        return UsageRow(name, cells, bar, link, known)

    def _list_url(self, condition: Mapping[str, str]) -> str:
        days = {"activity_from": f"{self._range.first}", "activity_until": f"{self._range.last}"}
        return f"{self._url('changelist')}?{urlencode({**condition, **days})}"

    def _url(self, name: str, *args: Any) -> str:
        # Set by Django's admin or by the view.
        site = getattr(self._request, "current_app", None)
        return reverse(f"admin:agent_sessions_session_{name}", args=args, current_app=site)

    def _session_rows(self) -> list[UsageRow]:
        rows = self._view.filter(Session.objects.using(bridge.database())).filter(
            last_activity_at__gte=self._begin, last_activity_at__lt=self._end
        )
        recent = rows.order_by("-last_activity_at", "-id").values_list(
            "last_activity_at", flat=True
        )
        for moment in recent[NEWEST_SESSIONS : NEWEST_SESSIONS + 1]:
            rows = rows.filter(last_activity_at__gt=moment)
        column = "cost" if self._range.sort == "cost" else "message_count"
        rows = rows.order_by(F(column).desc(nulls_last=True), "-id").defer("metadata", "origin")
        sessions = with_readable_titles(rows[:SHOWN])
        readable = reach(self._request, SessionPermission.READ).among(sessions)
        most = max(map(self._now, sessions), default=0)
        return [
            session_row(
                one,
                charts.bar_width(self._now(one), most),
                self._url("change", one.pk),
                readable=one.pk in readable,
            )
            for one in sessions
        ]
