"""Where the API serves the binaries of messages."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.urls import NoReverseMatch, reverse

from .access import EVERYBODY, SCOPE

_NONE = UUID(int=0)


def media_url(view: Any) -> str:
    """Tells where a view's router serves the media of messages."""
    match = view.request.resolver_match
    name = "message-media" if match is None else f"{match.namespace}:message-media".lstrip(":")
    # What the project's own part of the path names comes first.
    named = {} if match is None else match.kwargs
    before = [value for key, value in named.items() if key not in view.kwargs]
    try:
        args = [*before, _NONE]
        url = reverse(name, args=args, current_app=match.namespace if match else None)
    except NoReverseMatch:
        return ""
    # Braces of a prefix would be taken for a field.
    url = url.replace("{", "%7B").replace("}", "%7D").replace(str(_NONE), "{message}")
    return f"{url}?{SCOPE}={EVERYBODY}" if view.reaches_everybody else url
