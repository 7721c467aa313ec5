"""Serve binaries of messages: inline for images, else as a download; with ranges and redirects."""

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

from django_agent_sessions.blobs import Stream, reads_parts, stream_blob
from django_agent_sessions.content.dialects.media import DISPLAYABLE_TYPES, image_type
from django_agent_sessions.exceptions import BlobError
from django_agent_sessions.models import Blob

from .responses import (
    iterate_in_thread,
    matches_etag,
    requested_range,
    set_content_security_headers,
)
from .signed_urls import signed_url

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
_HEAD_SIZE = 16


def serve_media(
    request: HttpRequest, content: bytes | Blob, claimed: str, name: str, *, download: bool = False
) -> HttpResponseBase:
    """Serve a binary of a message; large ones may be redirected to a signed URL.

    ``claimed`` is the media type in the payload, which only selects the file extension. Raises
    ``UnsatisfiableRangeError``, ``BlobNotFoundError`` or another ``BlobError``.
    """
    if isinstance(content, Blob):
        try:
            return _serve_blob(request, content, claimed, name, download=download)
        except BlobError as error:
            logger.warning("%s", error)
            raise
    headers = _headers(image_type(content[:16]), claimed, name, download=download)
    part = requested_range(request, len(content))
    start, stop = part or (0, len(content))
    response = HttpResponse(content[start:stop])
    return _finish(response, headers, len(content), part)


def _serve_blob(
    request: HttpRequest, blob: Blob, claimed: str, name: str, *, download: bool
) -> HttpResponseBase:
    # The type of an image was detected from its first bytes when it was stored.
    shown = blob.media_type if blob.media_type in DISPLAYABLE_TYPES else ""
    headers = _headers(shown, claimed, name, download=download)
    # The storage would serve an encrypted file as it is.
    may_redirect = request.method != "HEAD" and blob.data_key is None
    if may_redirect and (
        url := signed_url(blob, headers["Content-Type"], headers["Content-Disposition"])
    ):
        redirect = HttpResponseRedirect(url)
        redirect["Referrer-Policy"] = "no-referrer"
        patch_cache_control(redirect, private=True, no_store=True)
        return redirect
    # Not the hash, which would let a client test guesses of the content.
    headers["ETag"] = f'"{blob.pk.hex}"'
    if matches_etag(request, headers["ETag"]):
        return _finish(HttpResponseNotModified(), headers, blob.size, None)
    if reads_parts(blob):
        part = requested_range(request, blob.size, headers["ETag"])
    else:
        # Every part would download the whole file.
        part, headers["Accept-Ranges"] = None, "none"
    if request.method == "HEAD":
        return _finish(HttpResponse(), headers, blob.size, None)
    start, stop = part or (0, blob.size)
    stream = stream_blob(blob, start=start, stop=stop)
    head = stream.first_piece[:_HEAD_SIZE]
    if start == 0 and len(head) == _HEAD_SIZE and image_type(head) != shown:
        # The file has other content: reading it to its end fails, and it must not be displayed.
        headers |= _headers("", claimed, name, download=download)
    body = _AsyncStream(stream) if isinstance(request, ASGIRequest) else stream
    return _finish(StreamingHttpResponse(body), headers, blob.size, part)


def _headers(shown: str, claimed: str, name: str, *, download: bool) -> dict[str, str]:
    disposition = "inline" if shown and not download else "attachment"
    extension = _EXTENSIONS.get(shown or claimed, "bin")
    return {
        "Content-Type": shown or _ANY_TYPE,
        "Content-Disposition": f'{disposition}; filename="{name}.{extension}"',
        "Accept-Ranges": "bytes",
    }


def _finish(
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
        # Otherwise GZipMiddleware would compress the part, which could not be joined to others.
        response["Content-Encoding"] = "identity"
    # A redaction deletes the binary, and no browser's disk may keep it.
    patch_cache_control(response, private=True, no_store=True)
    return set_content_security_headers(response)


class _AsyncStream:
    """A stream for ASGI, read in threads. Django closes it even if nothing has been read."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def __aiter__(self) -> AsyncIterator[bytes]:
        return iterate_in_thread(self._stream)

    def close(self) -> None:
        self._stream.close()
