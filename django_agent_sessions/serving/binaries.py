"""Binaries of messages: images are shown, all else is a download; whole, in part, or elsewhere."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

from django.core.handlers.asgi import ASGIRequest
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseNotModified,
    HttpResponseRedirect,
    StreamingHttpResponse,
)
from django.http.response import HttpResponseBase
from django.utils.cache import patch_cache_control

from django_agent_sessions.blobs import Stream, stream_blob
from django_agent_sessions.exceptions import BlobError
from django_agent_sessions.models import Blob
from django_agent_sessions.transcripts.images import CLAIMED, image_type

from .files import in_turn, sealed
from .ranges import asked_range, is_known
from .signed import signed_url

logger = logging.getLogger("django_agent_sessions")

_EXTENSIONS = {
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/gif": "gif",
    "image/webp": "webp",
    "application/pdf": "pdf",
    "text/csv": "csv",
    "text/plain": "txt",
    "text/markdown": "md",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "audio/mpeg": "mp3",
    "audio/wav": "wav",
    "video/mp4": "mp4",
}
_ANY_TYPE = "application/octet-stream"
_HEAD = 16


def media(
    request: HttpRequest, content: bytes | Blob, claimed: str, name: str, *, download: bool = False
) -> HttpResponseBase:
    """Serves a binary of a message."""
    if isinstance(content, Blob):
        try:
            return _of_blob(request, content, claimed, name, download=download)
        except BlobError as error:
            logger.warning("%s", error)
            raise
    headers = _headers(image_type(content[:16]), claimed, name, download=download)
    part = asked_range(request, len(content))
    start, stop = part or (0, len(content))
    response = HttpResponse(content[start:stop])
    return _finished(response, headers, len(content), part)


def _of_blob(
    request: HttpRequest, blob: Blob, claimed: str, name: str, *, download: bool
) -> HttpResponseBase:
    # That is told by its first bytes too, which were read when it was stored.
    shown = blob.media_type if blob.media_type in CLAIMED else ""
    headers = _headers(shown, claimed, name, download=download)
    if request.method != "HEAD" and (
        url := signed_url(blob, headers["Content-Type"], headers["Content-Disposition"])
    ):
        redirect = HttpResponseRedirect(url)
        redirect["Referrer-Policy"] = "no-referrer"
        patch_cache_control(redirect, private=True, no_store=True)
        return redirect
    # Never the hash: whoever knows it could test a guess of what the file is.
    headers["ETag"] = f'"{blob.pk.hex}"'
    if is_known(request, headers["ETag"]):
        return _finished(HttpResponseNotModified(), headers, blob.size, None)
    part = asked_range(request, blob.size, headers["ETag"])
    if request.method == "HEAD":
        return _finished(HttpResponse(), headers, blob.size, None)
    start, stop = part or (0, blob.size)
    stream = stream_blob(blob, start=start, stop=stop)
    head = stream.beginning[:_HEAD]
    if start == 0 and len(head) == _HEAD and image_type(head) != shown:
        # Something else is in the file: its end is not sent, and what comes before is not shown.
        headers |= _headers("", claimed, name, download=download)
    body = _InTurn(stream) if isinstance(request, ASGIRequest) else stream
    return _finished(StreamingHttpResponse(body), headers, blob.size, part)


def _headers(shown: str, claimed: str, name: str, *, download: bool) -> dict[str, str]:
    way = "inline" if shown and not download else "attachment"
    ending = _EXTENSIONS.get(shown or claimed, "bin")
    return {
        "Content-Type": shown or _ANY_TYPE,
        "Content-Disposition": f'{way}; filename="{name}.{ending}"',
        "Accept-Ranges": "bytes",
    }


def _finished(
    response: HttpResponseBase, headers: dict[str, str], size: int, part: tuple[int, int] | None
) -> HttpResponseBase:
    for header, value in headers.items():
        response[header] = value
    if response.status_code == 304:
        del response["Content-Type"]
    else:
        start, stop = part or (0, size)
        response["Content-Length"] = str(stop - start)
    if part is not None:
        response.status_code = 206
        response["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
        # Else GZipMiddleware would compress the part, which fits nothing then.
        response["Content-Encoding"] = "identity"
    # Kept by nobody without asking: after a redaction there is no such binary any more.
    patch_cache_control(response, private=True, no_cache=True)
    return sealed(response)


class _InTurn:
    """A stream for ASGI, read in threads; it is closed although nobody may begin to read it."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def __aiter__(self) -> AsyncIterator[bytes]:
        return in_turn(self._stream)

    def close(self) -> None:
        self._stream.close()
