"""Content negotiation of the API's views."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rest_framework.exceptions import NotAcceptable
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.renderers import BaseRenderer


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
