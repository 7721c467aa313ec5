"""Permission checks of the admin."""

from __future__ import annotations

from django.http import Http404, HttpRequest

from django_agent_sessions.models import Session
from django_agent_sessions.models.access import SessionReach, reach_of
from django_agent_sessions.models.permissions import OPERATION_PERMISSIONS, SessionPermission

__all__ = ["SessionPermission", "may", "may_act", "reach", "require"]


def reach(request: HttpRequest, *allowed: SessionPermission) -> SessionReach:
    """Return the sessions in which the user has all of these permissions."""
    return reach_of(request.user, *allowed)


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
