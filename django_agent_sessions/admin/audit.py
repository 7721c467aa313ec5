"""Read-only admin of the audit trail.

Events hold no content, so reading them requires ``view_auditevent`` only. Primary keys are UUIDv7,
so one index on the primary key serves the order, the pages and the time filter.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.db.models import Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.urls import URLPattern
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_agent_sessions import audit
from django_agent_sessions.db import bridge
from django_agent_sessions.models import AuditEvent, Session
from django_agent_sessions.queries.titles import with_readable_titles
from django_agent_sessions.values.csv_cells import csv_cell

from .audit_descriptions import describe_details
from .columns import moment_html
from .filters import reject_nul
from .formatting import shown_title
from .input_filters import FilterField, InputFilter, TimeFilter
from .keyset_changelist import AFTER, KeysetChangeList
from .pages import admin_url, private_path
from .permissions import ReadOnlyAdmin, SessionPermission, may, reach, require

_MOST_NAMED = 100
"""Sessions that a search by session id finds; namespaces and scopes can have the same id."""

_MAX_NAME = 80

MAX_EVENTS = 100_000
"""The most events of a file, the newest. The name of the file says it if there are more."""

_BATCH = 1_000
_CSV_COLUMNS = ("when", "action", "actor", "actor_id", "session", "target", "reason", "details")


class AuditChangeList(KeysetChangeList):
    """Pages of events, newest first, with keyset pagination and without a count."""

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> Any:
        """Reject parameters other than the filters; Django would filter by any column."""
        parameters = self.get_filters_params()
        if not parameters.keys() <= AUDIT_PARAMETERS:
            raise IncorrectLookupParameters
        reject_nul(parameters)
        return super().get_queryset(request, exclude_parameters)

    def get_ordering(self, request: HttpRequest, queryset: QuerySet[Any]) -> list[Any]:
        return ["-id"]

    def get_results(self, request: HttpRequest) -> None:
        events, after = self.queryset, request.GET.get(AFTER)
        if after:
            events = events.filter(pk__lt=_parse_key(after))
        page = list(events[: self.list_per_page + 1])
        rows = page[: self.list_per_page]
        name_sessions(request, rows)
        self.show_admin_actions = False
        if len(page) > len(rows):
            self.older_url = self.get_query_string({AFTER: rows[-1].pk.hex})
        self.show(request, rows)
        self.csv_url = f"csv/{self.get_query_string()}"


def name_sessions(request: HttpRequest, events: Sequence[AuditEvent]) -> None:
    """Set ``named`` on each event: its session's title if the user may see it, or its id."""
    rows = Session.objects.using(bridge.database()).only("session_id", "title")
    named = rows.filter(pk__in={event.session for event in events if event.session})
    sessions = {row.pk: row for row in with_readable_titles(named)}
    allowed = (SessionPermission.VIEW, SessionPermission.READ)
    readable = reach(request, *allowed).among(sessions.values())
    for event in events:
        session = sessions.get(event.session) if event.session else None
        name = shown_title(session, readable=session.pk in readable) if session else ""
        event.named = Truncator(name).chars(_MAX_NAME)  # type: ignore[attr-defined] # for the columns


class ActionFilter(InputFilter):
    """Events of one action, chosen from a list: there are too many for links."""

    title = gettext_lazy("action")
    parameter_name = "by_action"

    @classmethod
    def inputs(cls) -> Mapping[str, Any]:
        return {"action__exact": gettext_lazy("Action")}

    def form_fields(self) -> Iterator[FilterField]:
        for field in super().form_fields():
            yield replace(field, choices=AuditEvent.Action.choices)

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        action = self.text("action__exact")
        return queryset.filter(action=action) if action else queryset


class _LinkFilter(admin.SimpleListFilter):
    """Filter by a value that a link sets; there are too many values to list."""

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, Any]]:
        """Return only the value in use."""
        selected = self.used_parameters.get(str(self.parameter_name))
        return [] if selected is None else [(selected, selected)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        if value is None:
            return queryset
        return queryset.filter(**{str(self.parameter_name): self.parse(value)})

    def parse(self, value: str) -> Any:
        return value


class AuditSessionFilter(_LinkFilter):
    title = gettext_lazy("this session")
    parameter_name = "session"

    def parse(self, value: str) -> UUID:
        return _parse_key(value)


class ActorFilter(_LinkFilter):
    title = gettext_lazy("this actor")
    parameter_name = "actor_id"


AUDIT_PARAMETERS = frozenset(
    {*ActionFilter.names(), "when", *TimeFilter.names(), "session", "actor_id"}
)
"""The permitted query parameters."""


class AuditEventAdmin(ReadOnlyAdmin):
    """Read-only admin of audit events, newest first."""

    list_display = ("at", "action", "by", "of_session", "reason", "in_short")
    list_filter = (ActionFilter, TimeFilter, AuditSessionFilter, ActorFilter)
    list_per_page = 100
    # Shows the search box; get_search_results defines the search.
    search_fields = ("actor",)
    # Not search_help_text: Django would use it as the only, invisible label of the search box.
    search_hint = gettext_lazy("Actor, session id, or key of an actor, session or message")
    ordering = ("-id",)
    actions = None
    fields = (
        "id",
        "at",
        "action",
        "actor",
        "actor_id",
        "of_session",
        "target",
        "reason",
        "in_short",
        "as_recorded",
    )
    readonly_fields = fields

    class Media:
        css = {"all": ("agent_sessions/page.css", "agent_sessions/list.css")}

    def has_view_permission(self, request: HttpRequest, obj: AuditEvent | None = None) -> bool:
        """Require ``view_auditevent``; unlike in Django, ``change_auditevent`` is not enough."""
        return may(request, SessionPermission.VIEW_AUDIT)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[AuditChangeList]:
        return AuditChangeList

    def get_queryset(self, request: HttpRequest) -> QuerySet[AuditEvent]:
        """Read the write database.

        A user who does not reach all sessions sees the events of existing sessions only.
        """
        events = super().get_queryset(request).using(bridge.database())
        reached = reach(request, SessionPermission.VIEW_AUDIT)
        if not reached.is_everything:
            events = events.filter(session__in=reached.filter(Session.objects.values("pk")))
        return events

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Search by actor, session id, or the key of a session or target."""
        term = search_term.strip()
        if "\x00" in term:
            return queryset.none(), False
        if not term:
            return queryset, False
        condition = Q(actor=term) | Q(actor_id=term)
        try:
            key = UUID(term)
        except ValueError:
            named = Session.objects.using(queryset.db).filter(session_id=term)
            reached = reach(request, SessionPermission.VIEW_AUDIT).filter(named)
            sessions = list(reached.values_list("pk", flat=True)[:_MOST_NAMED])
            return queryset.filter(condition | Q(session__in=sessions)), False
        return queryset.filter(condition | Q(session=key) | Q(target=key)), False

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        require(request, SessionPermission.VIEW_AUDIT)
        return super().change_view(request, object_id, form_url, extra_context)

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        require(request, SessionPermission.VIEW_AUDIT)
        return super().history_view(request, object_id, extra_context)

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> AuditEvent | None:
        event = super().get_object(request, object_id, from_field)
        if event is not None:
            name_sessions(request, [event])
        return event

    def get_urls(self) -> list[URLPattern]:
        url = private_path(self, "csv/", self.csv_view, "auditevent_csv")
        return [url, *super().get_urls()]

    def csv_view(self, request: HttpRequest) -> HttpResponseBase:
        """Send the events that the filters select as a CSV file, and record that."""
        require(request, SessionPermission.VIEW_AUDIT)
        try:
            events = self.get_changelist_instance(request).queryset
        except IncorrectLookupParameters as error:
            raise Http404 from error
        return _csv_response(request, events)

    @admin.display(description=gettext_lazy("when"))
    def at(self, event: AuditEvent) -> SafeString:
        return moment_html(event.created_at)

    @admin.display(description=gettext_lazy("actor"))
    def by(self, event: AuditEvent) -> SafeString | str:
        """Return the actor, linked to all events of this user."""
        if not event.actor_id:
            return event.actor or "–"
        url = self._events(actor_id=event.actor_id)
        return format_html('<a href="{}">{}</a>', url, event.actor or event.actor_id)

    @admin.display(description=gettext_lazy("session"))
    def of_session(self, event: AuditEvent) -> SafeString | str:
        """Return the session, linked to its page if it still exists, and to its events."""
        if event.session is None:
            return "–"
        events = self._events(session=event.session)
        named: str = event.named  # type: ignore[attr-defined] # set with the page's rows
        if not named:
            return format_html(
                '{} ({}) <div><a href="{}">{}</a></div>',
                event.session,
                _("deleted"),
                events,
                _("all events"),
            )
        if not self.admin_site.is_registered(Session):
            return format_html('{} <div><a href="{}">{}</a></div>', named, events, _("all events"))
        url = admin_url(self, "session_change", event.session)
        return format_html(
            '<a href="{}">{}</a> <div><a class="as-more" href="{}">{}</a></div>',
            url,
            named,
            events,
            _("all events"),
        )

    @admin.display(description=gettext_lazy("details"))
    def in_short(self, event: AuditEvent) -> str:
        """Return the details without message keys, which the event's own page shows."""
        return describe_details(event.details, within=event.session is not None) or "–"

    @admin.display(description=gettext_lazy("details as recorded"))
    def as_recorded(self, event: AuditEvent) -> str:
        return json.dumps(event.details, ensure_ascii=False)

    def _events(self, **parameters: Any) -> str:
        return f"{admin_url(self, 'auditevent_changelist')}?{urlencode(parameters)}"


def _parse_key(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError as error:
        raise IncorrectLookupParameters from error


# --- as a file -----------------------------------------------------------------------------------


class _CSVLine:
    def write(self, line: str) -> str:
        return line


def _csv_response(request: HttpRequest, events: QuerySet[AuditEvent]) -> HttpResponseBase:
    audit.record_checked(
        AuditEvent.Action.EXPORTED,
        actor=request.user,
        details={"format": "csv", "what": "audit events"},
        using=bridge.database(),
    )
    writer = csv.writer(_CSVLine())
    lines = (writer.writerow(row) for row in _rows(events))
    response = StreamingHttpResponse(lines, content_type="text/csv; charset=utf-8")
    is_cut = events.order_by("-pk")[MAX_EVENTS : MAX_EVENTS + 1].exists()
    name = f"audit-events-newest-{MAX_EVENTS}" if is_cut else "audit-events"
    response["Content-Disposition"] = f'attachment; filename="{name}.csv"'
    return response


def _rows(events: QuerySet[AuditEvent]) -> Iterator[Any]:
    yield _CSV_COLUMNS
    ordered, sent = events.order_by("-pk"), 0
    page = list(ordered[:_BATCH])
    while page and sent < MAX_EVENTS:
        yield from map(_row, page)
        sent += len(page)
        page = list(ordered.filter(pk__lt=page[-1].pk)[:_BATCH])


def _row(event: AuditEvent) -> list[str]:
    values = (
        event.created_at.isoformat(),
        event.get_action_display(),
        event.actor,
        event.actor_id,
        event.session or "",
        event.target or "",
        event.reason,
        describe_details(event.details, within=event.session is not None),
    )
    return [csv_cell(str(value)) for value in values]
