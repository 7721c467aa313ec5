"""The URL at which the API serves the media of messages."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.urls import NoReverseMatch, reverse

from .access import SCOPE, SCOPE_ALL

_ANY_MESSAGE = UUID(int=0)


def media_url(view: Any) -> str:
    """Return the media URL with ``{message}`` for the id; empty if the router has none."""
    match = view.request.resolver_match
    name = "message-media" if match is None else f"{match.namespace}:message-media".lstrip(":")
    # The arguments of the project's part of the path come first.
    kwargs = {} if match is None else match.kwargs
    prefix = [value for key, value in kwargs.items() if key not in view.kwargs]
    try:
        args = [*prefix, _ANY_MESSAGE]
        url = reverse(name, args=args, current_app=match.namespace if match else None)
    except NoReverseMatch:
        return ""
    # str.format would read braces of the prefix as a field.
    url = url.replace("{", "%7B").replace("}", "%7D").replace(str(_ANY_MESSAGE), "{message}")
    return f"{url}?{SCOPE}={SCOPE_ALL}" if view.reaches_everybody else url
