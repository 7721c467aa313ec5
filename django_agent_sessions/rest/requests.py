"""Requests whose bodies are read although nobody said how long they are."""

from __future__ import annotations

from typing import Any

from django.core.handlers.asgi import ASGIRequest
from rest_framework.request import Request

from .problems import LengthRequired


class SessionRequest(Request):
    """A request of REST framework, which would take a body without a length for none at all.

    A body without one is sent in chunks. Under ASGI it is read; WSGI gives no way to read it that
    every server has, so that the length is asked for.
    """

    def _load_stream(self) -> None:
        super()._load_stream()  # type: ignore[misc] # the stubs leave it out
        if self._stream is not None or self.META.get("CONTENT_LENGTH"):
            return
        if isinstance(self._request, ASGIRequest):
            if beginning := self._request.read(1):
                self._stream: Any = _Rejoined(beginning, self._request)
        elif self.META.get("HTTP_TRANSFER_ENCODING"):
            raise LengthRequired


class _Rejoined:
    """A stream of which the beginning was read to see whether there is anything."""

    def __init__(self, beginning: bytes, rest: Any) -> None:
        self._beginning, self._rest = beginning, rest

    def read(self, size: int = -1) -> bytes:
        """Reads as much as is there, or as is wanted."""
        beginning, self._beginning = self._beginning, b""
        if size < 0:
            return beginning + bytes(self._rest.read())
        return beginning + bytes(self._rest.read(max(0, size - len(beginning))))
