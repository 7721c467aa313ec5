"""Neutral parts as parts of an AI SDK message; streams and transcripts read them by one rule.

What the AI SDK has no part for becomes a data part, so that nothing is dropped: ``data-unknown``
for what no reader of a framework's format knows, ``data-file`` for media without an address that
a browser can open, ``data-document`` for a document that is text. Left out are an empty text, and
reasoning that the model keeps to itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from django_agent_sessions.references import Path
from django_agent_sessions.transcripts import Part, PartKind
from django_agent_sessions.transcripts.blocks import Block
from django_agent_sessions.transcripts.parts import cited_url

UIPart = dict[str, Any]
"""A part of a ``UIMessage``."""

Link = Callable[[Path], str | None]
"""Tells where the binary is that a payload holds at a path; ``None`` if nowhere."""

FAILED = "The tool failed."
"""What is said of a tool that failed without a word."""

_MEDIA = frozenset({PartKind.IMAGE, PartKind.DOCUMENT})
_ANY_TYPE = "application/octet-stream"


def no_link(path: Path) -> str | None:
    """Links nothing: what is still being said has no address yet."""
    return None


def content(part: Part, path: Path, link: Link = no_link) -> UIPart | None:
    """Makes the part of anything but a tool's call or result."""
    match part.kind:
        case PartKind.TEXT:
            return {"type": "text", "text": part.text, "state": "done"} if part.text else None
        case PartKind.REASONING:
            return {"type": "reasoning", "text": part.text, "state": "done"} if part.text else None
        case PartKind.IMAGE | PartKind.DOCUMENT:
            return media(part, path, link)
        case _:
            return {"type": "data-unknown", "data": {"value": part.data}}


def media(part: Part, path: Path, link: Link) -> UIPart:
    """Makes the part of an image, document, recording or video."""
    url = part.url if is_remote(part.url) else None
    if not part.url and part.size is not None:
        url = link(path)
    if url is not None:
        found = {"type": "file", "mediaType": part.media_type or _ANY_TYPE, "url": url}
        return {**found, "filename": part.name} if part.name else found
    told = {"mediaType": part.media_type, "filename": part.name, "size": part.size}
    told = {key: value for key, value in told.items() if value not in ("", None)}
    if part.text:
        return {"type": "data-document", "data": {**told, "text": part.text}}
    return {"type": "data-file", "data": told}


def call(part: Part, spare_id: str) -> UIPart:
    """Makes the part of a tool's call, which waits for its result."""
    return {
        "type": "dynamic-tool",
        "toolName": part.name or "tool",
        "toolCallId": part.call_id or spare_id,
        "state": "input-available",
        "input": {} if part.data is None else part.data,
    }


def outcome(block: Block, part: Part, link: Link = no_link) -> UIPart:
    """Tells what a result makes of its call."""
    if part.status == "error":
        return {"state": "output-error", "errorText": part.text or FAILED}
    return {"state": "output-available", "output": _output(block, part, link)}


def sources(part: Part) -> Iterator[UIPart]:
    """Finds the pages that a text cites."""
    cited = part.data if part.kind is PartKind.TEXT and isinstance(part.data, list) else ()
    for citation in cited:
        if not isinstance(citation, dict):
            continue
        url = cited_url(citation)
        if is_remote(url):
            found = {"type": "source-url", "sourceId": url, "url": url}
            title = citation.get("title")
            yield {**found, "title": title} if isinstance(title, str) and title else found


def is_remote(url: str) -> bool:
    """Tells whether a browser may be given an address."""
    return url[:8].lower().startswith(("https://", "http://"))


def _output(block: Block, part: Part, link: Link) -> Any:
    """A text, a JSON value, or a list of both where there is more than one of them."""
    kinds = {inner.kind for inner in part.parts}
    mixed = PartKind.TOOL_RESULT in kinds and PartKind.TEXT in kinds
    if not mixed and kinds.isdisjoint(_MEDIA):
        return part.text if part.data is None else part.data
    return [_element(inner, path, link) for inner, path in _elements(block, part.parts)]


def _elements(block: Block, parts: Sequence[Part]) -> Iterator[tuple[Part, Path]]:
    if not block.inner:
        yield from ((part, block.path) for part in parts)
    for inner in block.inner:
        yield from ((part, inner.path) for part in inner.parts)


def _element(part: Part, path: Path, link: Link) -> UIPart:
    if part.kind is PartKind.TOOL_RESULT:
        return {"type": "json", "value": part.data}
    if part.kind is PartKind.TEXT:
        return {"type": "text", "text": part.text}
    if part.kind in _MEDIA:
        return media(part, path, link)
    return {"type": "unknown", "value": part.data}
