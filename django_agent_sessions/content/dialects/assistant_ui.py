"""Conversion of the messages that assistant-ui's client stored.

A payload is ``{"id": …, "parent_id": …, "format": …, "content": {…}}``. The formats are
``ai-sdk/v6``, whose content is a ``UIMessage`` of the AI SDK (``role`` and ``parts``), and
``aui/v0``, assistant-ui's own (``role`` and ``content``). Other formats are converted as far as
they have the same fields.

Clients are untrusted: a summary has no token counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from django_agent_sessions.content.blob_refs import Path

from .arguments import parse_json, parse_json_container
from .media import (
    EncodedText,
    Media,
    base64_size,
    is_encoded_text,
    media_from_data,
    media_from_url,
    media_type,
)
from .parts import (
    EMPTY_SUMMARY,
    Part,
    PartKind,
    Summary,
    neutral_role,
    result_part,
    text_of,
    text_or_media_part,
    unknown_part,
)
from .text import join_searchable_text, readable_texts

_PathAndParts = tuple[Path, tuple[Part, ...]]

_LISTS = ("parts", "content")
_STATUSES = {"output-available": "success", "output-error": "error", "output-denied": "error"}
_INPUTS = ("input", "rawInput", "args", "argsText")
_OUTPUTS = ("output", "result", "errorText")


def parts(payload: object) -> tuple[Part, ...]:
    """Return the parts of a message."""
    return tuple(part for _, found in parts_with_paths(payload) for part in found)


def parts_with_paths(payload: object) -> Iterator[_PathAndParts]:
    """Yield the paths and parts of a message."""
    content = payload.get("content") if isinstance(payload, dict) else None
    if not isinstance(content, dict):
        yield (), (unknown_part(payload),)
        return
    for key in _LISTS:
        value = content.get(key)
        if (text := text_or_media_part(PartKind.TEXT, value)) is not None:
            yield ("content", key), (text,)
            return
        if isinstance(value, list | tuple):
            for position, part in enumerate(value):
                yield from _part(part, ("content", key, position))
            return
    yield ("content",), (unknown_part(content),)


def summary(payload: object) -> Summary:
    """Return the neutral columns of a message, without token counts."""
    content = payload.get("content") if isinstance(payload, dict) else None
    if not isinstance(content, dict):
        return EMPTY_SUMMARY
    text = join_searchable_text(readable_texts(parts(payload)))
    return Summary(neutral_role(content.get("role")), text, None, None, None)


def inline_binaries(part: dict[str, Any]) -> Iterator[EncodedText]:
    """Yield the values of a part that may be binaries."""
    for key in ("url", "image"):
        value = part.get(key)
        if isinstance(value, str) and value[:5].lower() != "data:":
            continue
        if is_encoded_text(value):
            yield value
    for holder in (part, part.get("audio")):
        if not isinstance(holder, dict) or holder.get("sourceType") is not None:
            continue
        if is_encoded_text(value := holder.get("data")):
            yield value


def _part(part: Any, path: Path) -> Iterator[_PathAndParts]:
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(kind, str):
        yield path, (unknown_part(part),)
    elif isinstance(part.get("toolCallId"), str) and _tool_name(part, kind):
        yield from _tool(part, _tool_name(part, kind), path)
    elif kind == "step-start":
        yield path, ()
    else:
        reader = _READERS.get(kind)
        found = reader(part) if reader is not None else None
        yield path, (unknown_part(part) if found is None else found,)


def _tool_name(part: dict[str, Any], kind: str) -> str:
    if kind in ("dynamic-tool", "tool-call"):
        return text_of(part.get("toolName"))
    return kind.removeprefix("tool-") if kind.startswith("tool-") else ""


def _tool(part: dict[str, Any], name: str, path: Path) -> Iterator[_PathAndParts]:
    call_id = part["toolCallId"]
    input_key = next((key for key in _INPUTS if part.get(key) is not None), "")
    data = parse_json(part["argsText"]) if input_key == "argsText" else part.get(input_key)
    call = Part(PartKind.TOOL_CALL, name=name, call_id=call_id, data=data)
    yield (*path, input_key) if input_key else path, (call,)
    for key in _OUTPUTS:
        if part.get(key) is not None:
            yield (*path, key), (_result(part, key, call_id, name),)


def _result(part: dict[str, Any], key: str, call_id: str, name: str) -> Part:
    value, state = part[key], part.get("state")
    failed = key == "errorText" or part.get("isError") is True
    status = _STATUSES.get(state, "") if isinstance(state, str) else ""
    text = text_or_media_part(PartKind.TEXT, value) if value else None
    return result_part(
        () if text is None else (text,),
        call_id=call_id,
        name=name,
        status="error" if failed else status,
        data=parse_json_container(value) if text is not None else value,
    )


def _text_reader(kind: PartKind) -> Callable[[dict[str, Any]], Part | None]:
    def read(part: dict[str, Any]) -> Part | None:
        return text_or_media_part(kind, part.get("text"))

    return read


def _file(part: dict[str, Any]) -> Part | None:
    if is_encoded_text(url := part.get("url")):
        found = media_from_url(url)
    elif is_encoded_text(data := part.get("data")):
        kind = part.get("sourceType")
        # The id of a stored file: neither inline nor at a URL.
        by_id = Media() if kind == "id" else media_from_data(data)
        found = media_from_url(data) if kind == "url" else by_id
    else:
        return None
    declared_type = _media_type(part.get("mediaType", part.get("mimeType"))) or found.media_type
    kind = PartKind.IMAGE if declared_type.startswith("image/") else PartKind.DOCUMENT
    name = text_of(part.get("filename"))
    return Part(kind, name=name, media_type=declared_type, size=found.size, url=found.url)


def _image(part: dict[str, Any]) -> Part | None:
    if not is_encoded_text(image := part.get("image")):
        return None
    found = media_from_url(image)
    name = text_of(part.get("filename"))
    return Part(
        PartKind.IMAGE, name=name, media_type=found.media_type, size=found.size, url=found.url
    )


def _audio(part: dict[str, Any]) -> Part | None:
    audio = part.get("audio")
    data = audio.get("data") if isinstance(audio, dict) else None
    if not isinstance(audio, dict) or not is_encoded_text(data):
        return None
    declared_type = media_type("audio", audio.get("format"))
    return Part(PartKind.DOCUMENT, media_type=declared_type, size=base64_size(data))


def _source(part: dict[str, Any]) -> Part | None:
    url: EncodedText = value if is_encoded_text(value := part.get("url")) else ""
    title = text_of(part.get("title"))
    if not url and not title:
        return None
    declared_type = _media_type(part.get("mediaType"))
    found = media_from_url(url)
    return Part(
        PartKind.DOCUMENT,
        name=title or text_of(part.get("filename")),
        media_type=declared_type or found.media_type,
        size=found.size,
        url=found.url,
    )


def _media_type(declared_type: object) -> str:
    family, _, file_format = text_of(declared_type).lower().partition("/")
    return media_type(family, file_format) if family and family != "document" else ""


_READERS: dict[str, Callable[[dict[str, Any]], Part | None]] = {
    "text": _text_reader(PartKind.TEXT),
    "reasoning": _text_reader(PartKind.REASONING),
    "file": _file,
    "image": _image,
    "audio": _audio,
    "source": _source,
    "source-url": _source,
    "source-document": _source,
}
