"""Permission checks of the admin."""

from __future__ import annotations

from django.http import Http404, HttpRequest

from django_agent_sessions import permissions
from django_agent_sessions.permissions import Allowed

__all__ = ["Allowed", "may", "require"]


def may(request: HttpRequest, *allowed: Allowed) -> bool:
    """Return whether the user has all of these permissions."""
    return permissions.may(request.user, *allowed)


def require(request: HttpRequest, *allowed: Allowed) -> None:
    """Raise Http404 unless the user has all of these permissions."""
    if not may(request, *allowed):
        raise Http404
