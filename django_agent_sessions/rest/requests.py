"""Requests whose bodies are read even if they have no length."""

from __future__ import annotations

from typing import Any

from django.core.handlers.asgi import ASGIRequest
from rest_framework.request import Request

from .problems import LengthRequired


class SessionRequest(Request):
    """A request that reads chunked bodies, which REST framework treats as empty.

    Under ASGI a body without a length is read. WSGI has no portable way to read it, so a length is
    required there.
    """

    def _load_stream(self) -> None:
        super()._load_stream()  # type: ignore[misc] # missing in the stubs
        if self._stream is not None or self.META.get("CONTENT_LENGTH"):
            return
        if isinstance(self._request, ASGIRequest):
            if beginning := self._request.read(1):
                self._stream: Any = _PrefixedStream(beginning, self._request)
        elif self.META.get("HTTP_TRANSFER_ENCODING"):
            raise LengthRequired


class _PrefixedStream:
    """A stream whose beginning was read already, to see whether there is a body."""

    def __init__(self, beginning: bytes, rest: Any) -> None:
        self._beginning, self._rest = beginning, rest

    def read(self, size: int = -1) -> bytes:
        beginning, self._beginning = self._beginning, b""
        if size < 0:
            return beginning + bytes(self._rest.read())
        return beginning + bytes(self._rest.read(max(0, size - len(beginning))))
