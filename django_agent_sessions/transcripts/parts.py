"""The neutral types: what a payload of any agent framework is read into."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from django_agent_sessions.references import BlobRef

from .media import referenced

MAX_COUNT = 2**31 - 1
"""The largest token count or latency that a ``Summary`` holds: what an integer column can."""

_ROLES = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "tool",
}


class PartKind(StrEnum):
    """What a part of a message is."""

    TEXT = "text"
    REASONING = "reasoning"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"
    IMAGE = "image"
    DOCUMENT = "document"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a message, whatever framework wrote it.

    Everything is as it was in the payload, so untrusted: ``text`` may hold what a page or a
    database cannot carry (see ``displayable``), and ``url`` may have any scheme.
    """

    kind: PartKind
    """What it is. Audio and video are documents with their own ``media_type``."""

    text: str = ""
    """The words: of a text or reasoning; of a tool result, all its readable contents, one per
    line; of a document that came as text, and of a recording that came with a transcript."""

    name: str = ""
    """Name of the tool or of the document."""

    call_id: str = ""
    """Pairs a tool call with its result."""

    status: str = ""
    """``"success"`` or ``"error"`` where the payload tells, else empty."""

    data: Any = None
    """A tool call's arguments, parsed where they are JSON in a string. A tool result's JSON; a
    list, if there are several. The citations of a text. The id of a file that is neither inline
    nor at a URL, or what a document says about itself. The raw value, where ``kind`` is
    unknown."""

    media_type: str = ""
    """Media type of an image, document, recording or video; empty if the payload does not tell."""

    size: int | None = None
    """Bytes of an inline binary, which itself is not copied here; ``None`` if unknown."""

    url: str = ""
    """Where the media is, if it is not inline."""

    parts: tuple[Part, ...] = ()
    """A tool result's contents one by one. JSON among them is a tool result with ``data``."""


class Summary(NamedTuple):
    """The neutral columns of one message, each fit for its database column."""

    role: str
    """``"user"``, ``"assistant"``, ``"system"``, ``"tool"``, or empty for anything else."""

    text: str
    """What people read and search for: all texts, tool results and documents that came as text,
    one per line. Not reasoning, and not the names and arguments of tool calls. At most
    ``TEXT_CAP`` characters, always encodable to UTF-8, without NUL."""

    input_tokens: int | None
    """Tokens the model read; ``None`` if the payload does not tell."""

    output_tokens: int | None
    """Tokens the model wrote; ``None`` if the payload does not tell."""

    latency_ms: int | None
    """Milliseconds the model took; ``None`` if the payload does not tell."""


EMPTY_SUMMARY = Summary("", "", None, None, None)
"""Of what cannot be read."""


def unknown(value: object) -> Part:
    """Keeps a value that no reader knows, so that it is shown and not dropped."""
    return Part(PartKind.UNKNOWN, data=value)


def spoken(kind: PartKind, value: object) -> Part | None:
    """Reads a field that holds words."""
    if isinstance(value, str):
        return Part(kind, text=value)
    if not isinstance(value, BlobRef) or value.prefix is None:
        return None
    found = referenced(value)
    told = value.media_type or found.media_type
    kind = PartKind.IMAGE if told.startswith("image/") else PartKind.DOCUMENT
    return Part(kind, media_type=told, size=value.size)


def neutral_role(role: object) -> str:
    """Translates a role of any dialect."""
    return _ROLES.get(role, "") if isinstance(role, str) else ""


def text_of(value: object) -> str:
    """Reads a field that should hold text."""
    return value if isinstance(value, str) else ""


def cited_url(source: Mapping[str, Any]) -> str:
    """Reads where a source is that a text cites, as the SDKs write it."""
    location = source.get("location")
    web = location.get("web") if isinstance(location, dict) else None
    urls = (source.get("url"), web.get("url") if isinstance(web, dict) else None)
    return next((url for url in urls if isinstance(url, str) and url), "")


def count_of(value: object) -> int | None:
    """Reads a number of tokens or milliseconds."""
    # NaN is refused by the comparison, as it is neither above nor below anything.
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT:
        return int(value)
    return None


def result_part(
    contents: tuple[Part, ...], *, call_id: str, name: str = "", status: str = "", data: Any = None
) -> Part:
    """Makes a tool result out of its contents."""
    if data is None:
        values = [content.data for content in contents if content.kind is PartKind.TOOL_RESULT]
        data = values[0] if len(values) == 1 else values or None
    text = "\n".join(content.text for content in contents if content.text)
    return Part(
        PartKind.TOOL_RESULT,
        text=text,
        name=name,
        call_id=call_id,
        status=status,
        data=data,
        parts=contents,
    )
