"""What a client accepts, and what it is given."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rest_framework.exceptions import NotAcceptable
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.renderers import BaseRenderer


class SessionNegotiation(DefaultContentNegotiation):
    """Chooses by ``Accept``; one that is empty accepts anything."""

    def get_accept_list(self, request: Any) -> list[str]:
        """Reads what is accepted."""
        return [accepted for accepted in super().get_accept_list(request) if accepted] or ["*/*"]


class FileNegotiation(SessionNegotiation):
    """For files: what is accepted, if it is JSON, is for errors; the file is given as it is.

    A browser asks for an image by ``image/*``, and a program for Markdown by ``text/markdown``.
    """

    def select_renderer(
        self, request: Any, renderers: Iterable[BaseRenderer], format_suffix: str | None = None
    ) -> Any:
        """Chooses how an error is written."""
        known = list(renderers)
        try:
            return super().select_renderer(request, known, format_suffix)
        except NotAcceptable:
            return known[0], known[0].media_type
