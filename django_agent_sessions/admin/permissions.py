"""Who may do what in the admin, and what is shown to those who may not read."""

from __future__ import annotations

from django.http import Http404, HttpRequest
from django.utils.translation import gettext_lazy as _

from django_agent_sessions import permissions
from django_agent_sessions.permissions import Allowed

__all__ = ["MASK", "Allowed", "may", "require"]

MASK = _("[hidden]")
"""Stands for content that the viewer may not read."""


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
