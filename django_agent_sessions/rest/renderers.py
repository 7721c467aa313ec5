"""The format of responses: content negotiation and the JSON renderer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rest_framework.exceptions import NotAcceptable
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.renderers import BaseRenderer, JSONRenderer


class SafeJSONRenderer(JSONRenderer):
    """A JSON renderer that escapes half of a surrogate pair instead of failing."""

    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, Any] | None = None,
    ) -> bytes:
        try:
            return bytes(super().render(data, accepted_media_type, renderer_context))
        except UnicodeEncodeError:
            escaping = _EscapingJSONRenderer()
            return bytes(escaping.render(data, accepted_media_type, renderer_context))


class _EscapingJSONRenderer(JSONRenderer):
    ensure_ascii = True


class SessionNegotiation(DefaultContentNegotiation):
    """Content negotiation by ``Accept``; an empty header accepts anything."""

    def get_accept_list(self, request: Any) -> list[str]:
        """Return the accepted media types, ``*/*`` if there are none."""
        return [media_type for media_type in super().get_accept_list(request) if media_type] or [
            "*/*"
        ]


class FileNegotiation(SessionNegotiation):
    """For files: ``Accept`` chooses the format of errors only, the file has its own type.

    A browser requests an image with ``image/*``, and a program Markdown with ``text/markdown``.
    """

    def select_renderer(
        self, request: Any, renderers: Iterable[BaseRenderer], format_suffix: str | None = None
    ) -> Any:
        """Choose the renderer of errors."""
        renderer_list = list(renderers)
        try:
            return super().select_renderer(request, renderer_list, format_suffix)
        except NotAcceptable:
            return renderer_list[0], renderer_list[0].media_type
