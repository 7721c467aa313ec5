"""The pages of operations on all matches: list, progress, report, cancel and go on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.http.response import HttpResponseBase
from django.urls import URLPattern, path
from django.utils import timezone
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST

from django_agent_sessions import audit
from django_agent_sessions.db import bridge
from django_agent_sessions.models import AuditEvent, Operation, Session
from django_agent_sessions.models.permissions import OPERATION_PERMISSIONS, REVIEWING

from .columns import moment_html
from .operations import begin, stored_matches
from .pages import admin_url, render
from .permissions import ReadOnlyAdmin, SessionPermission, may, reach
from .titles import shown_name, with_shown_titles

_CONTENT_FILTERS: Final[Mapping[str, tuple[SessionPermission, ...]]] = {
    "metadata_": (SessionPermission.VIEW, SessionPermission.READ),
    "label": REVIEWING,
    "assignee": REVIEWING,
    "review": REVIEWING,
}
"""The beginnings of filters whose values are content, and what it takes to see them."""


class OperationAdmin(ReadOnlyAdmin):
    """Operations of the user, or of all users with ``view_operation`` for all sessions."""

    list_display = ("kind", "state_now", "started_by_name", "started", "handled", "reason")
    list_filter = ("kind",)
    # Without the total, django-unfold offers to show all where all are shown.
    show_full_result_count = True
    actions = None

    class Media:
        css = {"all": ("agent_sessions/page.css", "agent_sessions/list.css")}

    @admin.display(description=_("state"))
    def state_now(self, operation: Operation) -> Any:
        return capfirst(operation.status_at(timezone.now()).label)

    @admin.display(description=_("started"))
    def started(self, operation: Operation) -> Any:
        return moment_html(operation.created_at)

    @admin.display(description=_("sessions"))
    def handled(self, operation: Operation) -> int:
        return operation.handled

    def has_view_permission(self, request: HttpRequest, obj: Operation | None = None) -> bool:
        needed = OPERATION_PERMISSIONS[obj.kind] if obj else (SessionPermission.VIEW,)
        return may(request, *needed)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Operation]:
        rows = super().get_queryset(request).using(bridge.database())
        # An access rule that does not reach all sessions cannot decide about an operation.
        if reach(request, SessionPermission.VIEW_OPERATIONS).is_everything:
            return rows
        return rows.filter(started_by=str(request.user.pk))

    def get_urls(self) -> list[URLPattern]:
        views: dict[str, Any] = {
            "progress": self.progress_view,
            "report": self.report_view,
            "file": require_POST(self.file_view),
            "act": require_POST(self.act_view),
        }
        urls = [
            path(
                f"<uuid:key>/{name}/",
                self.admin_site.admin_view(view),
                name=f"agent_sessions_operation_{name}",
            )
            for name, view in views.items()
        ]
        return [*urls, *super().get_urls()]

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """Show the progress and the report."""
        # Imported here to keep the start of processes and commands fast.
        from django_agent_sessions.operations import reporting

        operation = self._operation(request, object_id)
        return render(
            self,
            request,
            "operation",
            title=operation.get_kind_display(),
            operation=operation,
            words=_filters_in_words(request, operation),
            lines=_named(request, reporting.report_lines(operation, request.user)),
            has_file=_has_file(request, operation),
            may_change=_may_change(request, operation),
            progress=reporting.progress_of(operation),
        )

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> Any:
        raise Http404

    def progress_view(self, request: HttpRequest, key: UUID) -> HttpResponse:
        """Return the figures for the page's script."""
        from django_agent_sessions.operations import reporting

        return JsonResponse(reporting.progress_of(self._operation(request, key)))

    def report_view(self, request: HttpRequest, key: UUID) -> HttpResponse:
        """Send the sessions that were skipped or failed as CSV."""
        from django_agent_sessions.operations import reporting

        response = HttpResponse(content_type="text/csv; charset=utf-8")
        response["Content-Disposition"] = f'attachment; filename="operation-{key}.csv"'
        lines = reporting.report_lines(self._operation(request, key), request.user)
        reporting.write_csv(lines, response)
        return response

    def file_view(self, request: HttpRequest, key: UUID) -> HttpResponseBase:
        """Send the file of an export, and record it."""
        from django_agent_sessions import serving
        from django_agent_sessions.blobs.export_files import read_export

        operation = self._operation(request, key)
        if not _has_file(request, operation):
            raise Http404
        audit.record_checked(
            AuditEvent.Action.OPERATION,
            target=key,
            actor=request.user,
            details={"operation": "download", "sessions": operation.done},
            using=operation._state.db,
        )
        return serving.streamed_download(request, read_export(operation), "conversations", "jsonl")

    def act_view(self, request: HttpRequest, key: UUID) -> HttpResponse:
        """Cancel the operation, or let it go on."""
        from django_agent_sessions import operations

        operation = self._operation(request, key)
        if not _may_change(request, operation):
            raise Http404
        if request.POST.get("action") == "cancel":
            operations.cancel(operation, actor=request.user)
        elif operations.resume(operation):
            begin(operation)
        return HttpResponseRedirect(admin_url(self, "operation_change", key))

    def _operation(self, request: HttpRequest, key: Any) -> Operation:
        operation: Operation | None = self.get_object(request, str(key))
        if operation is None or not self.has_view_permission(request, operation):
            raise Http404
        return operation


def _named(request: HttpRequest, lines: Sequence[Any]) -> list[tuple[Any, str]]:
    """Return the lines of a report with what the sessions are called, as the user may see it."""
    keys = [line.key for line in lines if line.name]
    rows = Session.objects.using(bridge.database()).filter(pk__in=keys)
    sessions = with_shown_titles(request, rows)
    names = {str(session.pk): shown_name(session) for session in sessions}
    return [(line, names.get(str(line.key), line.name)) for line in lines]


def _has_file(request: HttpRequest, operation: Operation) -> bool:
    """Return whether there is a file, which only the user who started the export gets."""
    from django_agent_sessions.blobs.export_files import is_downloadable

    return _started(request, operation) and is_downloadable(operation)


def _started(request: HttpRequest, operation: Operation) -> bool:
    return operation.started_by == str(request.user.pk)


def _may_change(request: HttpRequest, operation: Operation) -> bool:
    """Return whether the user may cancel the operation and let it go on."""
    everything = reach(request, SessionPermission.CHANGE_OPERATIONS).is_everything
    return everything or _started(request, operation)


def _filters_in_words(request: HttpRequest, operation: Operation) -> Any:
    from django_agent_sessions.governance.operation_erasure import shown_filters

    filters = shown_filters(operation)
    hidden = set() if _started(request, operation) else _hidden_filters(request, filters)
    try:
        if not hidden:
            criteria = {**operation.criteria, "filters": filters}
            return stored_matches(request.user, criteria).in_words()
    except (IncorrectLookupParameters, StopIteration):
        # The project has removed a filter or the site.
        pass
    return [
        (name, _("not shown") if name in hidden else ", ".join(each))
        for name, each in filters.items()
    ]


def _hidden_filters(request: HttpRequest, names: Iterable[str]) -> set[str]:
    """Return the filters whose values are content that the user may not see in all sessions."""
    return {
        name
        for name in names
        for beginning, needed in _CONTENT_FILTERS.items()
        if name.startswith(beginning) and not reach(request, *needed).is_everything
    }
