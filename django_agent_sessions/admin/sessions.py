"""Sessions in the admin: what is put together here lives in the modules beside."""

from __future__ import annotations

from typing import Any

from django.contrib.admin import ShowFacets
from django.contrib.admin.views.main import SEARCH_VAR
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import URLPattern
from django.utils.http import urlencode

from django_agent_sessions import bridge
from django_agent_sessions.models import Session
from django_agent_sessions.search import find_sessions

from . import exporting, holding
from .changelist import SessionChangeList
from .columns import COLUMNS, SessionColumns
from .deletion import Deletion
from .filters import FILTERS, PARAMETERS
from .permissions import Allowed, may, require


class SessionAdmin(SessionColumns, Deletion):
    """Sessions, the most recently active first."""

    list_display = COLUMNS
    list_filter = FILTERS
    list_per_page = 50
    list_select_related = ("owner",)
    # What is searched is told by :meth:`get_search_results`; this only brings the box.
    search_fields = ("session_id",)
    # An index has one order, and a million rows cannot be sorted for a page.
    sortable_by = ()
    ordering = ("-last_activity_at", "-id")
    show_full_result_count = False
    show_facets = ShowFacets.NEVER
    actions = (
        exporting.export_markdown,
        exporting.export_jsonl,
        holding.hold_selected,
        holding.release_selected,
    )

    class Media:
        css = {"all": ("agent_sessions/list.css",)}

    def has_view_permission(self, request: HttpRequest, obj: Session | None = None) -> bool:
        """Takes ``view_session``: whoever may only hold sessions must be let in here, too."""
        return may(request, Allowed.VIEW)

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Nobody adds: agents do."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Session | None = None) -> bool:
        """Nobody changes: the store is the one writer."""
        return False

    def has_export_permission(self, request: HttpRequest) -> bool:
        """Whether the actions of :mod:`.exporting` are there."""
        return exporting.may_export(request)

    def has_hold_permission(self, request: HttpRequest) -> bool:
        """Whether the actions of :mod:`.holding` are there."""
        return holding.may_hold(request)

    def lookup_allowed(self, lookup: str, value: str, request: Any = None) -> bool:
        """Allows our own filters only: ``?title__startswith=`` would tell what is in a title."""
        return lookup in PARAMETERS

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[SessionChangeList]:
        """Gives the list that pages by key."""
        return SessionChangeList

    def get_queryset(self, request: HttpRequest) -> QuerySet[Session]:
        """Reads where the store writes, never a replica: all that follows stays in this alias."""
        return super().get_queryset(request).using(bridge.database())

    def get_preserved_filters(self, request: HttpRequest) -> str:
        """Hands the list's filters on to the pages of a session, without the words of a search."""
        name = "_changelist_filters"
        filters = QueryDict(
            QueryDict(super().get_preserved_filters(request)).get(name), mutable=True
        )
        filters.pop(SEARCH_VAR, None)
        return urlencode({name: filters.urlencode()}) if filters else ""

    def get_search_results(
        self, request: HttpRequest, queryset: Any, search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Finds sessions by id and owner, for widgets that choose one; the list does more."""
        if not search_term:
            return queryset, False
        found = find_sessions(search_term, sessions=queryset, content=False, using=queryset.db)
        return queryset.filter(pk__in=found.sessions), False

    def response_action(
        self, request: HttpRequest, queryset: QuerySet[Any], *args: Any, **kwargs: Any
    ) -> HttpResponse | None:
        """Runs an action for what was selected on the page, never for all that there is."""
        selected: Any = request.POST.copy()
        selected["select_across"] = "0"
        request.POST = selected
        return super().response_action(request, queryset, *args, **kwargs)

    def get_urls(self) -> list[URLPattern]:
        """Puts the pages of a session before Django's own, which would take anything for a key."""
        # Here, because the start of each process and command would wait for what they need.
        from . import redacting, timeline, transcript

        ours = [
            *transcript.transcript_urls(self),
            *exporting.export_urls(self),
            *redacting.redact_urls(self),
            *timeline.timeline_urls(self),
        ]
        return [*ours, *super().get_urls()]

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Shows the conversation; there is nothing to change."""
        if request.method not in {"GET", "HEAD"}:
            raise PermissionDenied
        from .transcript import transcript_view

        return transcript_view(self, request, object_id, extra_context)

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Shows Django's page about changes, which there are none of."""
        require(request, Allowed.VIEW)
        return super().history_view(request, object_id, extra_context)
