"""Permission checks of the admin, and the base class of admins whose rows only programs write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.text import capfirst

from django_agent_sessions.models import Session
from django_agent_sessions.models.access import SessionReach, ViewerRights
from django_agent_sessions.models.permissions import OPERATION_PERMISSIONS, SessionPermission

__all__ = ["ReadOnlyAdmin", "SessionPermission", "may", "may_act", "reach", "require", "rights_of"]


if TYPE_CHECKING:
    # ModelAdmin is generic for the type checker only.
    _ModelAdmin = admin.ModelAdmin[Any]
else:
    _ModelAdmin = admin.ModelAdmin


_RIGHTS = "_agent_sessions_rights"
"""The attribute of a request that keeps the rights of its user."""


def rights_of(request: HttpRequest) -> ViewerRights:
    """Return the rights of the request's user, for which a request asks the access rule once."""
    rights: ViewerRights | None = vars(request).get(_RIGHTS)
    if rights is None or rights.viewer is not request.user:
        rights = ViewerRights(request.user)
        setattr(request, _RIGHTS, rights)
    return rights


def reach(request: HttpRequest, *allowed: SessionPermission) -> SessionReach:
    """Return the sessions in which the user has all of these permissions."""
    return rights_of(request).reach(*allowed)


def may(request: HttpRequest, *allowed: SessionPermission, session: Session | None = None) -> bool:
    """Return whether the user has all of these permissions in a session, or in any."""
    reached = reach(request, *allowed)
    return bool(reached) if session is None else reached.includes(session)


def may_act(request: HttpRequest) -> bool:
    """Return whether the user may start an operation on all sessions that match."""
    return any(may(request, *needed) for needed in OPERATION_PERMISSIONS.values())


def require(request: HttpRequest, *allowed: SessionPermission) -> None:
    """Raise Http404 unless the user has all of these permissions in any session."""
    if not may(request, *allowed):
        raise Http404


class ReadOnlyAdmin(_ModelAdmin):
    """An admin without pages that add, change or delete rows, in one order and without counts."""

    sortable_by = ()
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    empty_value_display = "–"

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        # Django's title asks the reader to select a row.
        context = {"title": capfirst(self.opts.verbose_name_plural), **(extra_context or {})}
        return super().changelist_view(request, context)
