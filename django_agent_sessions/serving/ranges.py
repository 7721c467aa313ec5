"""Range requests and conditional requests: RFC 9110, sections 13 and 14."""

from __future__ import annotations

import re

from django.http import HttpRequest
from django.utils.http import parse_etags

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
