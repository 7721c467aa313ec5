"""File downloads, range requests, and the security headers of responses with foreign content."""

from __future__ import annotations

import itertools
import re
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any, TypeVar

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import patch_cache_control
from django.utils.http import content_disposition_header, parse_etags

from django_agent_sessions.models import Session

# More digits than any file size has; a range with more is ignored.
_RANGE = re.compile(r"bytes=[ \t]*([0-9]{0,18})-([0-9]{0,18})[ \t]*", re.IGNORECASE | re.ASCII)


class UnsatisfiableRangeError(Exception):
    """A client requests bytes after the end."""

    def __init__(self, size: int) -> None:
        super().__init__(f"the range is not satisfiable: there are {size} bytes")
        self.content_range = f"bytes */{size}"


def requested_range(request: HttpRequest, size: int, etag: str = "") -> tuple[int, int] | None:
    """Return the requested range as start and stop; None for the whole response.

    Several ranges are ignored, and a range whose ``If-Range`` does not match.
    """
    match = _RANGE.fullmatch(request.headers.get("Range", ""))
    if match is None or request.method != "GET":
        return None
    condition = request.headers.get("If-Range")
    if condition is not None and (not etag or condition.strip() != etag):
        return None
    first, last = match.groups()
    if first:
        start, stop = int(first), min(int(last) + 1, size) if last else size
        if last and int(last) < int(first):
            return None
    elif last:
        start, stop = max(0, size - int(last)), size
    else:
        return None
    if start >= size:
        raise UnsatisfiableRangeError(size)
    return start, stop


def matches_etag(request: HttpRequest, etag: str) -> bool:
    """Return whether the client has the current content."""
    etags = parse_etags(request.headers.get("If-None-Match", ""))
    return "*" in etags or etag in (tag.removeprefix("W/") for tag in etags)


R = TypeVar("R", bound=HttpResponseBase)

_TYPES = {
    "md": "text/markdown; charset=utf-8",
    "jsonl": "application/jsonl; charset=utf-8",
    "zip": "application/zip",
}
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
_CHUNK_SIZE = 64 * 1024


def attachment(data: bytes, content_type: str, name: str) -> HttpResponse:
    """Serve a file as a download."""
    response = HttpResponse(data, content_type=content_type)
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return set_content_security_headers(response)


def set_content_security_headers(response: R) -> R:
    """Prevent a browser from sniffing another type or running scripts in a response."""
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = "sandbox; default-src 'none'"
    return response


def streamed_download(
    request: Any, pieces: Iterator[bytes], name: str, extension: str
) -> StreamingHttpResponse:
    """Serve a file that is written while it is sent."""
    # Read the first piece now, so that its error fails the request and not the open response.
    pieces = itertools.chain([next(pieces, b"")], pieces)
    body = iterate_in_thread(pieces) if isinstance(request, ASGIRequest) else pieces
    response = StreamingHttpResponse(body, content_type=_TYPES[extension])
    response["Content-Disposition"] = content_disposition_header(True, f"{name}.{extension}") or ""
    response["X-Content-Type-Options"] = "nosniff"
    patch_cache_control(response, private=True, no_store=True)
    return response


def encode_in_chunks(texts: Iterable[str]) -> Iterator[bytes]:
    """Encode texts and join them into chunks of at least 64 KiB."""
    buffer, size = [], 0
    for text in texts:
        buffer.append(text.encode())
        size += len(buffer[-1])
        if size >= _CHUNK_SIZE:
            yield b"".join(buffer)
            buffer, size = [], 0
    if buffer:
        yield b"".join(buffer)


def file_name(session: Session) -> str:
    """Return a file name for a session that is safe for file systems and headers."""
    return _UNSAFE.sub("-", session.session_id)[:80].strip("-") or str(session.pk)


async def iterate_in_thread(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Iterate over pieces in threads: under ASGI, Django would read all before it sends any."""

    def read_next() -> bytes | None:
        return next(pieces, None)

    while (piece := await sync_to_async(read_next)()) is not None:
        yield piece
