"""Permission checks of the admin."""

from __future__ import annotations

from django.http import Http404, HttpRequest

from django_agent_sessions.models import permissions
from django_agent_sessions.models.permissions import SessionPermission

__all__ = ["SessionPermission", "may", "require"]


def may(request: HttpRequest, *allowed: SessionPermission) -> bool:
    """Return whether the user has all of these permissions."""
    return permissions.has_permissions(request.user, *allowed)


def require(request: HttpRequest, *allowed: SessionPermission) -> None:
    """Raise Http404 unless the user has all of these permissions."""
    if not may(request, *allowed):
        raise Http404
