"""Conversion of neutral parts to parts of AI SDK messages, for streams and transcripts alike.

A part that the AI SDK does not have becomes a data part, so that nothing is dropped:
``data-unknown`` for blocks that no dialect knows, ``data-file`` for media without a URL that a
browser can open, ``data-document`` for a document that is text. Empty texts and encrypted reasoning
are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from django_agent_sessions.content.dialects import Part, PartKind, TranscriptBlock
from django_agent_sessions.content.dialects.parts import cited_url, text_of
from django_agent_sessions.content.paths import Path

UIPart = dict[str, Any]
"""A part of a ``UIMessage``."""

URLBuilder = Callable[[Path], str | None]
"""A function that returns the URL of the binary at a path of a payload, or ``None``."""

TOOL_FAILED = "The tool failed."
"""The error text of a tool that failed without one."""

TOOL_INTERRUPTED = "The tool was interrupted: it has no result."
"""The error text of a call that was given up, because the user has written since."""

_MEDIA = frozenset({PartKind.IMAGE, PartKind.DOCUMENT})
_ANY_TYPE = "application/octet-stream"


def no_link(path: Path) -> str | None:
    """Return no URL: a message that is still streamed has none."""
    return None


def content_part(part: Part, path: Path, link: URLBuilder = no_link) -> UIPart | None:
    """Convert anything but a tool call or result; return ``None`` if there is nothing to show."""
    match part.kind:
        case PartKind.TEXT:
            return {"type": "text", "text": part.text, "state": "done"} if part.text else None
        case PartKind.REASONING:
            return {"type": "reasoning", "text": part.text, "state": "done"} if part.text else None
        case PartKind.IMAGE | PartKind.DOCUMENT:
            return media_part(part, path, link)
        case _:
            return {"type": "data-unknown", "data": {"value": part.data}}


def media_part(part: Part, path: Path, link: URLBuilder) -> UIPart:
    """Return a ``file`` with a URL, or a data part if there is none."""
    url = part.url if is_remote(part.url) else None
    if not part.url and part.size is not None:
        url = link(path)
    if url is not None:
        file = {"type": "file", "mediaType": part.media_type or _ANY_TYPE, "url": url}
        return {**file, "filename": part.name} if part.name else file
    data = {"mediaType": part.media_type, "filename": part.name, "size": part.size}
    data = {key: value for key, value in data.items() if value not in ("", None)}
    if part.text:
        return {"type": "data-document", "data": {**data, "text": part.text}}
    return {"type": "data-file", "data": data}


def tool_call_part(part: Part, call_id: str) -> UIPart:
    """Return a tool call without its result as a ``dynamic-tool``, which needs no client types."""
    return {
        "type": "dynamic-tool",
        "toolName": part.name or "tool",
        "toolCallId": call_id,
        "state": "input-available",
        "input": {} if part.data is None else part.data,
    }


def outcome_fields(part: Part) -> UIPart:
    """Return the keys of a ``dynamic-tool`` whose call says that it has ended; usually none.

    A provider's own tool ends with its call, and may have no result that is shown.
    """
    if part.status == "error":
        return {"state": "output-error", "errorText": TOOL_FAILED}
    return {"state": "output-available", "output": None} if part.status else {}


def tool_result_fields(block: TranscriptBlock, part: Part, link: URLBuilder = no_link) -> UIPart:
    """Return the keys of a ``dynamic-tool`` that its result changes."""
    if part.status == "error":
        return {"state": "output-error", "errorText": part.text or TOOL_FAILED}
    return {"state": "output-available", "output": _output(block, part, link)}


def source_parts(part: Part) -> Iterator[UIPart]:
    """Yield a ``source-url`` or ``source-document`` for each page or document that a text cites."""
    citations = part.data if part.kind is PartKind.TEXT and isinstance(part.data, list) else ()
    for citation in citations:
        if not isinstance(citation, dict):
            continue
        url, title = cited_url(citation), text_of(citation.get("title"))
        filename = text_of(citation.get("filename"))
        if is_remote(url):
            source = {"type": "source-url", "sourceId": url, "url": url}
            yield {**source, "title": title} if title else source
        elif not url and (name := title or filename):
            key = text_of(citation.get("file_id")) or name
            source = {"type": "source-document", "sourceId": key, "mediaType": _ANY_TYPE}
            yield {**source, "title": name, **({"filename": filename} if filename else {})}


def is_remote(url: str) -> bool:
    """Return whether a URL may be opened by a browser."""
    return url[:8].lower().startswith(("https://", "http://"))


def _output(block: TranscriptBlock, part: Part, link: URLBuilder) -> Any:
    """Return a text or a JSON value, or a list if the result mixes kinds of content."""
    kinds = {inner.kind for inner in part.parts}
    mixed = PartKind.TOOL_RESULT in kinds and PartKind.TEXT in kinds
    if not mixed and kinds.isdisjoint(_MEDIA):
        return part.text if part.data is None else part.data
    return [_element(inner, path, link) for inner, path in _elements(block, part.parts)]


def _elements(block: TranscriptBlock, parts: Sequence[Part]) -> Iterator[tuple[Part, Path]]:
    if not block.inner:
        yield from ((part, block.path) for part in parts)
    for inner in block.inner:
        yield from ((part, inner.path) for part in inner.parts)


def _element(part: Part, path: Path, link: URLBuilder) -> UIPart:
    if part.kind is PartKind.TOOL_RESULT:
        return {"type": "json", "value": part.data}
    if part.kind is PartKind.TEXT:
        return {"type": "text", "text": part.text}
    if part.kind in _MEDIA:
        return media_part(part, path, link)
    return {"type": "unknown", "value": part.data}
