"""Entity tags: an answer in one word, so that nobody overwrites what they did not see."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from django.http import HttpResponseNotModified
from django.utils.http import parse_etags
from rest_framework.exceptions import ValidationError
from rest_framework.response import Response

from .problems import PreconditionFailed


def etag_of(representation: Any) -> str:
    """Makes the strong tag of an answer."""
    text = json.dumps(representation, sort_keys=True, default=str)
    return f'"{hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:32]}"'


def tagged(request: Any, representation: Any, *, status: int = 200) -> Any:
    """Answers with a tag; with 304 if the client has it already."""
    etag = etag_of(representation)
    if request.method in ("GET", "HEAD"):
        known = _tags(request.headers.get("If-None-Match", ""))
        if etag in known or "*" in known:
            return HttpResponseNotModified(headers={"ETag": etag})
    return Response(representation, status=status, headers={"ETag": etag})


def require_match(request: Any, representation: Any) -> None:
    """Refuses a change of what the client has not seen as it is now."""
    given = request.headers.get("If-Match")
    if given is None:
        return
    tags = _tags(given)
    if not tags:
        raise ValidationError({"If-Match": ["Give the ETag that you read, in its quotes."]})
    if "*" not in tags and etag_of(representation) not in tags:
        raise PreconditionFailed


def _tags(header: str) -> list[str]:
    """Reads tags; also those that a compressing proxy made weak, because ours is of the content."""
    return [tag.removeprefix("W/") for tag in parse_etags(header)]
