"""Parts of an answer and answers that the client has: RFC 9110, sections 13 and 14."""

from __future__ import annotations

import re

from django.http import HttpRequest
from django.utils.http import parse_etags

# As many digits as no file has bytes; what has more is taken for no range.
_RANGE = re.compile(r"bytes=[ \t]*([0-9]{0,18})-([0-9]{0,18})[ \t]*", re.IGNORECASE | re.ASCII)


class UnsatisfiableRangeError(Exception):
    """A client asks for bytes that there are not."""

    def __init__(self, size: int) -> None:
        super().__init__(f"there are {size} bytes")
        self.content_range = f"bytes */{size}"


def asked_range(request: HttpRequest, size: int, etag: str = "") -> tuple[int, int] | None:
    """Reads which part of an answer is asked for."""
    found = _RANGE.fullmatch(request.headers.get("Range", ""))
    if found is None or request.method != "GET":
        return None
    condition = request.headers.get("If-Range")
    if condition is not None and (not etag or condition.strip() != etag):
        return None
    first, last = found.groups()
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


def is_known(request: HttpRequest, etag: str) -> bool:
    """Tells whether the client has what is there now."""
    named = parse_etags(request.headers.get("If-None-Match", ""))
    return "*" in named or etag in (tag.removeprefix("W/") for tag in named)
