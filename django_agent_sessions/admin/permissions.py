"""Who may do what in the admin."""

from __future__ import annotations

from django.http import Http404, HttpRequest

from django_agent_sessions import permissions
from django_agent_sessions.permissions import Allowed

__all__ = ["Allowed", "may", "require"]


def may(request: HttpRequest, *allowed: Allowed) -> bool:
    """Tells whether a user has all of these permissions.

    Args:
        request: The request.
        *allowed: The permissions.

    Returns:
        Whether the user has them; an inactive or anonymous one has none.
    """
    return permissions.may(request.user, *allowed)


def require(request: HttpRequest, *allowed: Allowed) -> None:
    """Hides a page from whoever lacks a permission.

    Args:
        request: The request.
        *allowed: The permissions.

    Raises:
        Http404: The user lacks one; whether the thing exists is not told.
    """
    if not may(request, *allowed):
        raise Http404
