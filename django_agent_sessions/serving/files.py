"""Files that are downloads, and what every answer with foreign content says."""

from __future__ import annotations

import itertools
import re
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any, TypeVar

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import patch_cache_control
from django.utils.http import content_disposition_header

from django_agent_sessions.models import Session

R = TypeVar("R", bound=HttpResponseBase)

_TYPES = {
    "md": "text/markdown; charset=utf-8",
    "jsonl": "application/jsonl; charset=utf-8",
    "zip": "application/zip",
}
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
_PIECE = 64 * 1024


def attachment(data: bytes, content_type: str, name: str) -> HttpResponse:
    """Serves a file."""
    response = HttpResponse(data, content_type=content_type)
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return sealed(response)


def sealed(response: R) -> R:
    """Forbids a browser to take an answer for anything else, or to run anything in it."""
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = "sandbox; default-src 'none'"
    return response


def download(
    request: Any, pieces: Iterator[bytes], name: str, ending: str
) -> StreamingHttpResponse:
    """Serves a file that is written while it is sent."""
    # The first one now: if it fails, the answer says so, and the first record is the request's.
    pieces = itertools.chain([next(pieces, b"")], pieces)
    body = in_turn(pieces) if isinstance(request, ASGIRequest) else pieces
    response = StreamingHttpResponse(body, content_type=_TYPES[ending])
    response["Content-Disposition"] = content_disposition_header(True, f"{name}.{ending}") or ""
    response["X-Content-Type-Options"] = "nosniff"
    patch_cache_control(response, private=True, no_store=True)
    return response


def encoded(texts: Iterable[str]) -> Iterator[bytes]:
    """Encodes, in pieces that are worth sending."""
    waiting, size = [], 0
    for text in texts:
        waiting.append(text.encode())
        size += len(waiting[-1])
        if size >= _PIECE:
            yield b"".join(waiting)
            waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)


def file_name(session: Session) -> str:
    """Names a file after a session, with nothing in it that a file system or header minds."""
    return _UNSAFE.sub("-", session.session_id)[:80].strip("-") or str(session.pk)


async def in_turn(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Reads piece by piece under ASGI, where Django would read all before it sends any."""

    def following() -> bytes | None:
        return next(pieces, None)

    while (piece := await sync_to_async(following)()) is not None:
        yield piece
