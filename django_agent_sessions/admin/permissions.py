"""Permission checks of the admin, and the base class of admins whose rows only programs write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.text import capfirst

from django_agent_sessions.models import Session
from django_agent_sessions.models.access import SessionReach, reach_of
from django_agent_sessions.models.permissions import OPERATION_PERMISSIONS, SessionPermission

__all__ = ["ReadOnlyAdmin", "SessionPermission", "may", "may_act", "reach", "require"]


if TYPE_CHECKING:
    # ModelAdmin is generic for the type checker only.
    _ModelAdmin = admin.ModelAdmin[Any]
else:
    _ModelAdmin = admin.ModelAdmin


_ASKED = "_agent_sessions_asked"
"""The attribute of a request that keeps the answers, each with the user who was asked about."""


def reach(request: HttpRequest, *allowed: SessionPermission) -> SessionReach:
    """Return the sessions in which the user has all of these permissions.

    A request asks the access rule once for each combination.
    """
    asked: dict[Any, tuple[Any, SessionReach]] = vars(request).setdefault(_ASKED, {})
    user, reached = asked.get(allowed, (None, None))
    if reached is None or user is not request.user:
        reached = reach_of(request.user, *allowed)
        asked[allowed] = request.user, reached
    return reached


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
