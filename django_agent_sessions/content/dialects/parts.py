"""The neutral types for payloads of all agent frameworks, and their text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from django_agent_sessions.content.blob_refs import BlobRef

from .media import Media, media_from_url

MAX_COUNT = 2**31 - 1
"""The largest token count or latency of a ``Summary``: the maximum of an integer column."""

TEXT_CAP = 100_000
"""The maximal length of a message's text for lists and search, in characters."""

_INVALID = re.compile("[\x00\ud800-\udfff]")

_ROLES = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "tool",
}


class PartKind(StrEnum):
    """Kind of a part of a message."""

    TEXT = "text"
    REASONING = "reasoning"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"
    IMAGE = "image"
    DOCUMENT = "document"
    UNKNOWN = "unknown"


_EXCLUDED = frozenset({PartKind.REASONING, PartKind.UNKNOWN})


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a message of any framework.

    All values are unchanged and therefore untrusted: ``text`` may contain characters that a page
    or a database rejects (see ``displayable``), and ``url`` may have any scheme.
    """

    kind: PartKind
    """The kind. Audio and video are documents with their own ``media_type``."""

    text: str = ""
    """The text of a text or of reasoning; all readable contents of a tool result, one per line;
    the text of a text document; the transcript of a recording."""

    name: str = ""
    """Name of the tool or of the document."""

    call_id: str = ""
    """The id that a tool call and its result have in common."""

    status: str = ""
    """``"success"`` or ``"error"`` if the payload contains a status, else empty."""

    data: Any = None
    """Depends on ``kind``: the arguments of a tool call, parsed if they are JSON in a string; the
    JSON of a tool result, or a list of several; the citations of a text; the id of a file that is
    neither inline nor at a URL, or the context of a document; the raw value if ``kind`` is
    unknown."""

    media_type: str = ""
    """Media type of an image, document, recording or video; empty if unknown."""

    size: int | None = None
    """Size of an inline binary in bytes, ``None`` if unknown. The binary is not copied."""

    url: str = ""
    """URL of media that is not inline."""

    parts: tuple[Part, ...] = ()
    """The contents of a tool result. JSON among them is a tool result with ``data``."""


class Summary(NamedTuple):
    """The neutral columns of one message; each value is valid for its database column."""

    role: str
    """``"user"``, ``"assistant"``, ``"system"``, ``"tool"``, or empty for anything else."""

    text: str
    """The readable and searchable text: all texts, tool results and text documents, one per line,
    without reasoning and without the names and arguments of tool calls. At most ``TEXT_CAP``
    characters, always encodable to UTF-8, without NUL."""

    input_tokens: int | None
    """Input tokens of the model call; ``None`` if unknown."""

    output_tokens: int | None
    """Output tokens of the model call; ``None`` if unknown."""

    latency_ms: int | None
    """Latency of the model call in milliseconds; ``None`` if unknown."""

    has_error: bool = False
    """Whether a part has the status ``"error"``, such as the result of a tool that failed."""

    cache_read_tokens: int | None = None
    """Those of the input tokens that were read from a prompt cache; ``None`` if unknown."""

    cache_write_tokens: int | None = None
    """Those of the input tokens that were written to it; ``None`` if unknown."""


EMPTY_SUMMARY = Summary("", "", None, None, None)
"""The summary of an invalid payload."""


def has_error(parts: Iterable[Part]) -> bool:
    """Return whether a part has the status ``"error"``."""
    return any(part.status == "error" for part in parts)


def unknown_part(value: object) -> Part:
    """Return a part with a raw value of an unknown format."""
    return Part(PartKind.UNKNOWN, data=value)


def text_or_media_part(kind: PartKind, value: object) -> Part | None:
    """Convert a text field, or a reference that replaces its text; None for other values."""
    if isinstance(value, str):
        return Part(kind, text=value)
    if not isinstance(value, BlobRef) or value.prefix is None:
        return None
    media = media_from_url(value)
    media_type = value.media_type or media.media_type
    kind = PartKind.IMAGE if media_type.startswith("image/") else PartKind.DOCUMENT
    return Part(kind, media_type=media_type, size=value.size)


def binary_part(kind: PartKind, media: Media, *, media_type: str = "", **fields: Any) -> Part:
    """Return the part for a binary or a reference to one, with a declared media type if any."""
    return Part(
        kind, media_type=media_type or media.media_type, size=media.size, url=media.url, **fields
    )


def neutral_role(role: object) -> str:
    """Return the neutral role for a role of any dialect."""
    return _ROLES.get(role, "") if isinstance(role, str) else ""


def text_of(value: object) -> str:
    """Return a string unchanged, and an empty one for other values."""
    return value if isinstance(value, str) else ""


def cited_url(source: Mapping[str, Any]) -> str:
    """Return the URL of a citation's source, or an empty string."""
    location = source.get("location")
    web = location.get("web") if isinstance(location, dict) else None
    urls = (source.get("url"), web.get("url") if isinstance(web, dict) else None)
    return next((url for url in urls if isinstance(url, str) and url), "")


def count_of(value: object) -> int | None:
    """Return a valid number of tokens or milliseconds, else None."""
    # The comparison is false for NaN.
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT:
        return int(value)
    return None


def result_part(
    contents: tuple[Part, ...], *, call_id: str, name: str = "", status: str = "", data: Any = None
) -> Part:
    """Return the part of a tool result with these contents."""
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


def displayable(text: str) -> str:
    """Replace characters that are invalid in databases, responses and pages.

    A payload may contain NUL, which text columns reject, and lone surrogates, which UTF-8 cannot
    encode.

    Args:
        text: Any text.

    Returns:
        The text with each of them replaced by U+FFFD; its length does not change.
    """
    if text.isascii() and "\x00" not in text:
        return text
    return _INVALID.sub("\ufffd", text)


def join_searchable_text(texts: Iterable[str]) -> str:
    """Join the texts of a message for its text column, up to ``TEXT_CAP`` characters."""
    joined: list[str] = []
    remaining = TEXT_CAP
    for text in texts:
        if text:
            joined.append(text[:remaining])
            remaining -= len(text) + 1
            if remaining <= 0:
                break
    return displayable("\n".join(joined))


def readable_texts(parts: Iterable[Part]) -> Iterator[str]:
    """Yield the texts of the text column: those of all parts but reasoning and unknown ones."""
    for part in parts:
        if part.kind not in _EXCLUDED:
            yield part.text
