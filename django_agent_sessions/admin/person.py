"""A person's page: the sessions, usage and ratings of one user, the export and the erasure.

It has no content besides titles, so that looking at it is not recorded. Each statement of the page
reads a bounded number of rows, however many sessions the person has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any
from urllib.parse import quote as url_quote
from uuid import UUID

from django import forms
from django.contrib.admin.utils import unquote
from django.contrib.auth import get_permission_codename, get_user_model
from django.db import connections, transaction
from django.db.models import Count, Q, Sum
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import URLPattern
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext

from django_agent_sessions import serving, usage
from django_agent_sessions.content.dialects import displayable
from django_agent_sessions.db import bridge
from django_agent_sessions.exceptions import AgentSessionsError, ConfigurationError
from django_agent_sessions.governance.erasure import ErasureReceipt, erase
from django_agent_sessions.governance.person_data import PersonData
from django_agent_sessions.models import AuditEvent, MessageFeedback, Operation, Session
from django_agent_sessions.models.permissions import OPERATION_PERMISSIONS
from django_agent_sessions.models.users import user_names
from django_agent_sessions.queries.titles import with_readable_titles
from django_agent_sessions.values.owners import owner_key
from django_agent_sessions.values.token_counts import TokenCounts

from . import charts
from .formatting import (
    format_cost,
    format_input,
    format_integer,
    format_moment,
    format_tokens,
    has_prices,
)
from .pages import ReasonForm, admin_url, error_text, parse_key_or_404, private_path, render
from .permissions import SessionPermission, may_act, reach, require
from .titles import with_shown_titles
from .usage_tables import (
    UsageColumn,
    UsageRow,
    UsageTable,
    figure_cells,
    session_columns,
    session_row,
    utc_note,
)

ROWS = 20
"""The most recent sessions and ratings that a page shows."""

COUNTED = 10_000
"""The most recent sessions that are counted."""

MOST_ERASED = 1_000
"""The most sessions of a person who is erased in a request; for more there is the command."""

_EXPORT = OPERATION_PERMISSIONS[Operation.Kind.EXPORT]
_ERASE = (SessionPermission.VIEW, SessionPermission.DELETE, SessionPermission.REDACT)


class ErasureForm(ReasonForm):
    """The reason of an erasure, and what becomes of forks that other users own."""

    forks = forms.ChoiceField(
        label=gettext_lazy("Forks of other users"),
        choices=[
            ("redact", gettext_lazy("Redact the copied messages")),
            ("delete", gettext_lazy("Delete the forks")),
        ],
        widget=forms.RadioSelect,
        initial="redact",
    )


@dataclass(frozen=True, slots=True)
class _Person:
    """A person, and the request for one of the pages."""

    model_admin: Any
    request: HttpRequest
    data: PersonData
    name: str
    """The name of the user; empty if the user was deleted."""

    def may(self, *allowed: SessionPermission) -> bool:
        """Return whether the viewer has permissions in all sessions.

        An export and an erasure reach copies in sessions of others, and what is in no session.
        """
        return reach(self.request, *allowed).is_everything

    def reason_form(self, form: type[ReasonForm], action: AuditEvent.Action) -> Any:
        """Return the form of an action that always requires a reason."""
        made = form(action, self.request.POST if self.request.method == "POST" else None)
        made.fields["reason"].required = True
        return made

    def render(self, template: str, **context: Any) -> HttpResponse:
        key = self.data.key
        own = {
            "title": displayable(self.name) or _("deleted user %s") % key,
            "subtitle": _("User %s") % key,
            "key": str(key),
        }
        return render(self.model_admin, self.request, template, **own, **context)


def person_urls(model_admin: Any) -> list[URLPattern]:
    def pattern(route: str, view: Callable[[_Person], HttpResponseBase], name: str) -> URLPattern:
        @wraps(view)
        def page(request: HttpRequest, key: str) -> HttpResponseBase:
            return view(_get_person_or_404(model_admin, request, key))

        found = private_path(model_admin, f"person/<str:key>/{route}", page, f"session_{name}")
        # An erasure commits in batches.
        for alias in connections:
            transaction.non_atomic_requests(alias)(found.callback)
        return found

    return [pattern("", person_view, "person"), pattern("erase/", erase_view, "person_erase")]


def _get_person_or_404(model_admin: Any, request: HttpRequest, key: str) -> _Person:
    """Return a person who exists for the viewer: one with a session that the viewer reaches.

    Viewers who reach all sessions see all users, and deleted ones who have left ratings.
    """
    require(request, SessionPermission.VIEW)
    visible = reach(request, SessionPermission.VIEW)
    try:
        data = PersonData(bridge.database(), owner_key(unquote(key)))
        name = user_names([str(data.key)]).get(str(data.key), "")
        known = visible.is_everything and (name or data.feedback.exists())
        if known or visible.filter(data.sessions).exists():
            return _Person(model_admin, request, data, name)
    except (ConfigurationError, ValueError, OverflowError):
        # No key of a user.
        pass
    raise Http404


# --- the page -------------------------------------------------------------------------------------


def person_view(person: _Person) -> HttpResponseBase:
    """Show what is stored of a person; a POST exports it."""
    data, request, form = person.data, person.request, None
    if person.may(*_EXPORT):
        form = person.reason_form(ReasonForm, AuditEvent.Action.EXPORTED)
    if request.method == "POST":
        if form is None:
            raise Http404
        if form.is_valid():
            # Imported here, because it loads the importers, too.
            from django_agent_sessions.interchange.person_export import export_person

            reason = form.cleaned_data["reason"]
            pieces = export_person(data.key, reason=reason, actor=request.user, using=data.using)
            return serving.streamed_download(request, pieces, f"person-{data.key}", "zip")
    sessions = reach(request, SessionPermission.VIEW).filter(data.sessions).recent_first()
    counted, (ratings, older) = _count(sessions), _ratings(person)
    return person.render(
        "person",
        tiles=_tiles(counted),
        most=COUNTED,
        more=counted["sessions"] == COUNTED,
        sessions=_sessions(person, sessions),
        months=_months(person),
        ratings=ratings,
        older=older,
        form=form,
        may_erase=person.may(*_ERASE),
        may_act=may_act(request),
        may_audit=bool(reach(request, SessionPermission.VIEW_AUDIT)),
        account=_account_options(person),
    )


def _count(sessions: Any) -> dict[str, Any]:
    """Return figures of the most recent sessions, which nearly always are all."""
    counted: dict[str, Any] = sessions[:COUNTED].aggregate(
        sessions=Count("pk"),
        held=Count("pk", filter=Q(legal_hold=True)),
        messages=Sum("message_count", default=0),
        **{name: Sum(name) for name in (*TokenCounts._fields, "cost")},
    )
    return counted


def _tiles(counted: dict[str, Any]) -> list[tuple[str, str]]:
    tokens = TokenCounts(*(counted[name] for name in TokenCounts._fields))
    return [
        (pgettext("agent", "Sessions"), format_integer(counted["sessions"])),
        (_("Under legal hold"), format_integer(counted["held"])),
        (_("Messages"), format_integer(counted["messages"])),
        (_("Tokens in"), format_input(tokens)),
        (_("Tokens out"), format_tokens(counted["output_tokens"])),
        *([(_("Cost"), format_cost(counted["cost"]))] if has_prices() else []),
    ]


def _sessions(person: _Person, sessions: Any) -> UsageTable:
    rows = with_readable_titles(sessions.defer("metadata", "origin")[:ROWS])
    readable = reach(person.request, SessionPermission.READ).among(rows)
    most = max((row.message_count for row in rows), default=0)
    lines = [
        session_row(
            row,
            charts.bar_width(row.message_count, most),
            admin_url(person.model_admin, "session_change", row.pk),
            readable=row.pk in readable,
        )
        for row in rows
    ]
    title, empty = _("Most recent sessions"), _("No sessions.")
    return UsageTable("sessions", title, session_columns(), lines, empty=empty)


def _months(person: _Person) -> UsageTable | None:
    """Return the usage of the last months; None for viewers who may not see it."""
    if not person.may(SessionPermission.VIEW_USAGE):
        return None
    months = usage.by_month(person.data.key)
    most = max((one.messages for one in months), default=0)
    lines = [
        UsageRow(f"{one.month:%Y-%m}", figure_cells(one), charts.bar_width(one.messages, most))
        for one in months
    ]
    names = [
        _("Month"),
        _("Messages"),
        _("Errors"),
        pgettext("agent", "Sessions"),
        _("Tokens in"),
        _("Tokens out"),
    ]
    names += [_("Median latency"), _("95th percentile"), *([_("Cost")] if has_prices() else [])]
    empty = _("Nothing was counted in the last twelve months.")
    columns = [*map(UsageColumn, names)]
    return UsageTable("months", _("Usage by month"), columns, lines, _counted_note(), empty)


def _counted_note() -> str:
    """Return until when usage was counted: the figures above are those of now."""
    until = usage.counted_until()
    counted = _("Counted until %s.") % format_moment(until) if until else ""
    return " ".join(filter(None, (counted, utc_note())))


def _ratings(person: _Person) -> tuple[UsageTable, UUID | None]:
    """Return a page of the ratings that the person gave, without comments, and its last key."""
    rows, before = person.data.feedback, parse_key_or_404(person.request.GET.get("before"))
    admin = person.model_admin
    reached = reach(person.request, SessionPermission.VIEW)
    if not reached.is_everything:
        rows = rows.filter(session__in=reached.filter(Session.objects.values("pk")))
    if before:
        rows = rows.filter(pk__lt=before)
    columns = ("id", "value", "source", "updated_at", "message_id", "session_id")
    page = list(rows.order_by("-pk").values_list(*columns)[: ROWS + 1])
    sessions = Session.objects.using(person.data.using).filter(pk__in={row[-1] for row in page})
    named = with_shown_titles(person.request, sessions.defer("metadata", "origin"))
    titles: dict[UUID, str] = {row.pk: row.shown_title for row in named}  # type: ignore[attr-defined] # as set
    labels = dict(MessageFeedback.Value.choices)
    lines = [
        UsageRow(
            titles.get(session, ""),
            [capfirst(str(labels[value])), displayable(source), format_moment(moment)],
            "",
            f"{admin_url(admin, 'session_change', session)}?at={message}#m-{message}",
        )
        for _key, value, source, moment, message, session in page[:ROWS]
    ]
    heads = [*map(UsageColumn, (_("Message in"), _("Rating"), _("Source"), _("Changed")))]
    table = UsageTable("ratings", _("Ratings"), heads, lines, empty=_("No ratings."), bars=False)
    return table, page[ROWS - 1][0] if page[ROWS:] else None


def _account_options(person: _Person) -> Any:
    """Return the options of the user model if the viewer may see the user in this admin."""
    users = get_user_model()
    permission = f"{users._meta.app_label}.{get_permission_codename('view', users._meta)}"
    is_there = bool(person.name) and person.model_admin.admin_site.is_registered(users)
    return users._meta if is_there and person.request.user.has_perm(permission) else None


# --- erasure --------------------------------------------------------------------------------------


def erase_view(person: _Person) -> HttpResponse:
    """Show what an erasure would erase; a POST with the same figures erases it."""
    if not person.may(*_ERASE):
        raise Http404
    data, request = person.data, person.request
    if data.sessions[: MOST_ERASED + 1].count() > MOST_ERASED:
        return person.render("person_erase", most=MOST_ERASED)
    form = person.reason_form(ErasureForm, AuditEvent.Action.ERASED)
    run = partial(erase, data.key, actor=request.user, using=data.using)
    found, error = run(reason="", dry_run=True), ""
    seen = " ".join(map(str, found.counts.values()))
    if request.method == "POST" and form.is_valid():
        error = _("The data changed after this page was shown. Nothing has been erased yet.")
        if request.POST.get("seen") == seen:
            try:
                return _receipt_page(person, run(**form.cleaned_data))
            except AgentSessionsError as raised:
                # Such as a legal hold: the error texts contain ids only.
                error = error_text(raised)
    return person.render("person_erase", receipt=found, form=form, seen=seen, error=error)


def _receipt_page(person: _Person, receipt: ErasureReceipt) -> HttpResponse:
    url = f"data:application/json;charset=utf-8,{url_quote(receipt.to_json())}"
    return person.render("person_receipt", receipt=receipt, download=url)
