"""Entity tags, which keep clients from overwriting a version that they have not read."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from django.http import HttpResponseNotModified
from django.utils.http import parse_etags
from rest_framework.exceptions import ValidationError
from rest_framework.response import Response

from .problems import PreconditionFailed


def compute_etag(representation: Any) -> str:
    """Return the strong entity tag of a representation, in quotes.

    The tag covers what this user is shown: redacted content counts as its mask.
    """
    text = json.dumps(representation, sort_keys=True, default=str)
    return f'"{hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:32]}"'


def etag_response(request: Any, representation: Any, *, status: int = 200) -> Any:
    """Return a response with an entity tag, or a 304 if the client has this version."""
    etag = compute_etag(representation)
    if request.method in ("GET", "HEAD"):
        tags = _tags(request.headers.get("If-None-Match", ""))
        if etag in tags or "*" in tags:
            return HttpResponseNotModified(headers={"ETag": etag})
    return Response(representation, status=status, headers={"ETag": etag})


def require_match(request: Any, representation: Any) -> None:
    """Raise ``PreconditionFailed`` if ``If-Match`` names another version than the current one."""
    header = request.headers.get("If-Match")
    if header is None:
        return
    tags = _tags(header)
    if not tags:
        raise ValidationError({"If-Match": ["Must be the ETag that was read, in its quotes."]})
    if "*" not in tags and compute_etag(representation) not in tags:
        raise PreconditionFailed


def _tags(header: str) -> list[str]:
    """Parse tags; weak ones count, because compressing proxies weaken them."""
    return [tag.removeprefix("W/") for tag in parse_etags(header)]
