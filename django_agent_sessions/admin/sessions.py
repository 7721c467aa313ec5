"""The session admin, composed of the other modules of this package."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.contrib.admin.views.main import SEARCH_VAR
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import URLPattern
from django.utils.http import urlencode

from django_agent_sessions.db import bridge
from django_agent_sessions.models import Operation, Session, deletion
from django_agent_sessions.models.permissions import OPERATION_PERMISSIONS
from django_agent_sessions.queries.search import find_sessions

from . import export, hold_views, operations
from .changelist import SessionChangeList
from .columns import SessionColumnsMixin, chosen_columns
from .deletion import SessionDeletionMixin
from .filters import FILTERS, is_filter
from .pages import shows_undecryptable
from .permissions import SessionPermission, may, reach, require
from .titles import with_title


class SessionAdmin(SessionColumnsMixin, SessionDeletionMixin):
    """Admin of sessions, most recently active first."""

    list_filter = FILTERS
    list_per_page = 50
    # Shows the search box; get_search_results defines the search.
    search_fields = ("session_id",)
    # Only this order has an index; sorting a large table for each page would be slow.
    ordering = ("-last_activity_at", "-id")
    actions = (
        export.export_markdown,
        export.export_jsonl,
        hold_views.hold_selected,
        hold_views.release_selected,
    )

    class Media:
        css = {"all": ("agent_sessions/page.css", "agent_sessions/list.css")}

    def has_view_permission(self, request: HttpRequest, obj: Session | None = None) -> bool:
        """Require ``view_session``; ``change_session`` alone is not enough.

        The session is not asked for, because ``get_queryset`` has only those that are reached.
        """
        return may(request, SessionPermission.VIEW)

    def has_delete_permission(self, request: HttpRequest, obj: Session | None = None) -> bool:
        return may(request, SessionPermission.DELETE, session=obj)

    def has_export_permission(self, request: HttpRequest) -> bool:
        return may(request, *OPERATION_PERMISSIONS[Operation.Kind.EXPORT])

    def has_hold_permission(self, request: HttpRequest) -> bool:
        return may(request, *OPERATION_PERMISSIONS[Operation.Kind.HOLD])

    def get_list_display(self, request: HttpRequest) -> tuple[str, ...]:
        return chosen_columns(request)

    def lookup_allowed(self, lookup: str, value: str, request: Any = None) -> bool:
        """Allow our filters only: ``?title__startswith=`` would reveal titles."""
        return is_filter(lookup)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[SessionChangeList]:
        return operations.change_list_for(request)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Session]:
        """Return the sessions that the user may see, from the write database."""
        sessions = super().get_queryset(request).using(bridge.database())
        return reach(request, SessionPermission.VIEW).filter(sessions)

    def few(self, request: HttpRequest, **few: Any) -> QuerySet[Session]:
        """Return those of few sessions, selected by their keys, that the user may see."""
        sessions = super().get_queryset(request).using(bridge.database()).filter(**few)
        return reach(request, SessionPermission.VIEW).find(sessions)

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Session | None:
        """Return one session, which an access rule may decide by itself."""
        try:
            found = self.few(request, pk=object_id)
            if request.path.endswith("/delete/"):
                found = found.defer(*deletion.ENCRYPTED)
            return found.first()
        except (ValidationError, ValueError):
            return None

    def get_preserved_filters(self, request: HttpRequest) -> str:
        """Preserve the list's filters on the pages of a session, but not the search terms."""
        name = "_changelist_filters"
        filters = QueryDict(
            QueryDict(super().get_preserved_filters(request)).get(name), mutable=True
        )
        filters.pop(SEARCH_VAR, None)
        return urlencode({name: filters.urlencode()}) if filters else ""

    def get_search_results(
        self, request: HttpRequest, queryset: Any, search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Search by session id and owner, for autocomplete; the change list searches more."""
        if not search_term:
            return queryset, False
        result = find_sessions(search_term, sessions=queryset, content=False, using=queryset.db)
        return queryset.filter(pk__in=result.sessions), False

    def response_action(
        self, request: HttpRequest, queryset: QuerySet[Any], *args: Any, **kwargs: Any
    ) -> HttpResponse | None:
        """Run an action for the selected rows only; see ``operations`` for all matches."""
        selected: Any = request.POST.copy()
        selected["select_across"] = "0"
        request.POST = selected
        if "delete_selected" in selected.getlist("action"):
            queryset = queryset.defer(*deletion.ENCRYPTED)
        return super().response_action(request, queryset, *args, **kwargs)

    def get_urls(self) -> list[URLPattern]:
        """Put our URLs before Django's, whose ``<path:object_id>`` matches anything."""
        # Imported here to keep the start of processes and commands fast.
        from . import person
        from .redaction.views import redact_view
        from .reviews import review_view
        from .sharing import sharing_view
        from .timeline.views import timeline_pages
        from .transcript.viewers import session_path
        from .transcript.views import transcript_pages

        pages = [
            *transcript_pages(),
            ("export/", export.export_view, "export", "can_export"),
            ("redact/", redact_view, "redact", "can_redact"),
            ("review/", review_view, "review", "can_review"),
            ("sharing/", sharing_view, "sharing", "can_share"),
            *timeline_pages(),
        ]
        urls = [
            *(session_path(self, *page) for page in pages),
            *operations.operation_urls(self),
            *person.person_urls(self),
        ]
        return [*urls, *super().get_urls()]

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Show the conversation, read-only."""
        if request.method not in {"GET", "HEAD"}:
            raise PermissionDenied
        from .transcript.views import transcript_view

        return shows_undecryptable(
            self, request, partial(transcript_view, self, request, object_id, extra_context)
        )

    def inline_formsets(self, request: HttpRequest, session: Session) -> list[Any]:
        """Return the ``inlines`` of a project's subclass, to read, with what the user may view."""
        pairs = list(self.get_formsets_with_inlines(request, session))
        formsets = [
            formset(**self.get_formset_kwargs(request, session, inline, f"{number}-{inline.model}"))
            for number, (formset, inline) in enumerate(pairs)
        ]
        inlines = [inline for _, inline in pairs]
        found: list[Any] = self.get_inline_formsets(request, formsets, inlines, session)
        return found

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        require(request, SessionPermission.VIEW)
        view = partial(super().history_view, request, object_id, extra_context)
        return shows_undecryptable(self, request, lambda: with_title(request, view()))

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show the list, or run an action, which may read the content of sessions."""
        return shows_undecryptable(
            self, request, partial(super().changelist_view, request, extra_context)
        )
