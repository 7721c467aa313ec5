"""The usage page of the admin."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext as _

from django_agent_sessions.models import UsageRollup

from .permissions import ReadOnlyAdmin, SessionPermission, reach


class UsageAdmin(ReadOnlyAdmin):
    """Read-only admin with one page of figures instead of a list of rows."""

    def has_view_permission(self, request: HttpRequest, obj: UsageRollup | None = None) -> bool:
        """Require ``view_usagerollup`` in all sessions: the figures are not kept by session."""
        return reach(request, SessionPermission.VIEW_USAGE).is_everything

    def get_urls(self) -> list[URLPattern]:
        """Return the page and its update button; rows have no pages."""
        name = "agent_sessions_usagerollup"
        wrap = self.admin_site.admin_view
        return [
            path("", wrap(self.changelist_view), name=f"{name}_changelist"),
            path("update/", wrap(self.update_view), name=f"{name}_update"),
        ]

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> TemplateResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        # Imported here to keep the start of processes and commands fast.
        from .usage_page import usage_context

        request.current_app = self.admin_site.name
        context = {
            **self.admin_site.each_context(request),
            "title": _("Usage"),
            "opts": self.opts,
            "update_url": self._url("update"),
            **usage_context(request),
            **(extra_context or {}),
        }
        return TemplateResponse(request, "agent_sessions/admin/usage.html", context)

    def update_view(self, request: HttpRequest) -> HttpResponse:
        """Roll up new messages for a few seconds, then redirect to the page."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        from .usage_page import update_usage

        return HttpResponseRedirect(self._url("changelist") + update_usage(request))

    def _url(self, name: str) -> str:
        return reverse(f"admin:agent_sessions_usagerollup_{name}", current_app=self.admin_site.name)
