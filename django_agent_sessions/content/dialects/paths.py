"""Paths of the parts of a payload.

A path consists of keys and indexes: ``("content", 3)`` is the fourth block of a message,
``("content", 1, "toolResult", "content", 0)`` the first content of a tool's result, and
``("arguments",)`` the arguments of an OpenAI item. The readers of the dialects convert each block
separately.
"""

from __future__ import annotations

import base64
import binascii
import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_to_bytes

from django_agent_sessions.content.blob_refs import BlobRef, Path, value_at

from . import ASSISTANT_UI, OPENAI, STRANDS, assistant_ui, openai, strands
from .media import is_encoded_text
from .parts import Part, PartKind, unknown_part

_EXTRAS = ("refusal", "audio")
_CALLS = {
    "custom_tool_call": "input",
    "computer_call": "action",
    "local_shell_call": "action",
    "shell_call": "action",
    "web_search_call": "action",
    "apply_patch_call": "operation",
    "program": "code",
    "code_interpreter_call": "code",
    "file_search_call": "queries",
    "image_generation_call": "revised_prompt",
}
_RESULTS = {
    "file_search_call": "results",
    "code_interpreter_call": "outputs",
    "image_generation_call": "result",
    "mcp_approval_response": "reason",
    "tool_search_output": "tools",
    "program_output": "result",
}


@dataclass(frozen=True, slots=True)
class TranscriptBlock:
    """One block of a payload with its path."""

    path: Path
    """The path of the block; empty for the payload itself."""

    parts: tuple[Part, ...]
    """Its parts, usually one; none if it has no content, such as a cache point."""

    inner: tuple[TranscriptBlock, ...] = ()
    """The contents of a tool result, each with its own path."""


def blocks(dialect: str, payload: object) -> tuple[TranscriptBlock, ...]:
    """Return the blocks of a payload."""
    # A payload is untrusted: if the conversion fails, a page must still show it.
    try:
        if dialect == STRANDS:
            return tuple(_strands(payload))
        if dialect == OPENAI:
            return tuple(_openai(payload))
        if dialect == ASSISTANT_UI:
            return tuple(
                TranscriptBlock(*found) for found in assistant_ui.parts_with_paths(payload)
            )
    except Exception:
        return (TranscriptBlock((), (unknown_part(payload),)),)
    return (TranscriptBlock((), (unknown_part(payload),)),)


def path_to_json(path: Path) -> str:
    """Return a path as JSON, for a link or an attribute."""
    return json.dumps(list(path), separators=(",", ":"))


def path_from_json(address: str) -> Path:
    """Parse a path from JSON; raise :exc:`ValueError` if it is invalid."""
    try:
        found = json.loads(address)
    except RecursionError:
        raise ValueError("The path is nested too deeply.") from None
    if not isinstance(found, list) or not all(type(step) in (str, int) for step in found):
        raise ValueError("The path is not a list of keys and positions.")
    return tuple(found)


def part_at(dialect: str, payload: object, path: Path) -> Part | None:
    """Return the first part at a path, or None."""
    for block in blocks(dialect, payload):
        for found in (block, *block.inner):
            if found.path == path and found.parts:
                return found.parts[0]
    return None


def binary_at(dialect: str, payload: object, path: Path) -> tuple[bytes | BlobRef, str] | None:
    """Return the binary at a path, or its reference, with its media type; None if there is none."""
    part = part_at(dialect, payload, path)
    if part is None:
        return None
    if part.kind is PartKind.TOOL_RESULT and part.parts:
        # A result that consists of one image has no list of contents.
        part = part.parts[0]
    if part.kind not in (PartKind.IMAGE, PartKind.DOCUMENT):
        return None
    try:
        value = value_at(payload, path)
        # A reference may replace a whole text value or the text of a block.
        read = iter(()) if isinstance(value, BlobRef) else _BINARIES[dialect](value)
        candidates = map(_decode, itertools.chain(read, _references(part, value)))
        found = next((data for data in candidates if data is not None), None)
    except (LookupError, TypeError, AttributeError, ValueError, binascii.Error):
        return None
    return None if found is None else (found, part.media_type)


# --- Strands ---------------------------------------------------------------------------------


def _strands(message: object) -> Iterator[TranscriptBlock]:
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, list | tuple):
        for position, block in enumerate(content):
            path = ("content", position)
            yield TranscriptBlock(
                path, strands.parts({"content": [block]}), tuple(_results(block, path))
            )
    elif is_encoded_text(content):
        yield TranscriptBlock(("content",), strands.parts(message))
    else:
        yield TranscriptBlock((), strands.parts(message))


def _results(block: object, path: Path) -> Iterator[TranscriptBlock]:
    result = block.get("toolResult") if isinstance(block, dict) else None
    contents = result.get("content") if isinstance(result, dict) else None
    if not isinstance(result, dict) or not isinstance(contents, list | tuple):
        return
    for position, content in enumerate(contents):
        rest = {key: value for key, value in result.items() if key != "structuredContent"}
        read = strands.parts({"content": [{"toolResult": {**rest, "content": [content]}}]})
        found = read[0].parts if read else ()
        yield TranscriptBlock((*path, "toolResult", "content", position), found)


def _strands_binary(block: Any) -> Iterator[Any]:
    for value in block.values():
        inner = value.get("image", value) if isinstance(value, dict) else {}
        source = inner.get("source")
        if isinstance(source, dict):
            yield source.get("bytes")


# --- OpenAI ----------------------------------------------------------------------------------


def _openai(item: object) -> Iterator[TranscriptBlock]:
    if not isinstance(item, dict):
        yield TranscriptBlock((), openai.parts(item))
    elif item.get("type", "message") == "message":
        yield from _message(item)
    elif item["type"] == "reasoning":
        yield from _reasoning(item)
    else:
        yield from _item(item)


def _message(message: dict[str, Any]) -> Iterator[TranscriptBlock]:
    parts = openai.parts(message)
    if len(parts) == 1 and parts[0].kind is PartKind.UNKNOWN and parts[0].data is message:
        yield TranscriptBlock((), parts)
        return
    if message.get("reasoning_content") is not None:
        yield _field_block(message, "reasoning_content")
    if "tool_call_id" in message or message.get("role") == "function":
        result = tuple(part for part in parts if part.kind is PartKind.TOOL_RESULT)
        yield TranscriptBlock(("content",), result, tuple(_elements(message, "content")))
    else:
        yield from _contents(message)
        yield from (_field_block(message, key) for key in _EXTRAS if message.get(key) is not None)
    calls = message.get("tool_calls")
    if isinstance(calls, list | tuple):
        for position, call in enumerate(calls):
            read = openai.parts({"role": "assistant", "tool_calls": [call]})
            yield TranscriptBlock(("tool_calls", position), read)
    elif calls is not None:
        yield _field_block(message, "tool_calls")
    if message.get("function_call") is not None:
        yield _field_block(message, "function_call")


def _field_block(message: dict[str, Any], key: str) -> TranscriptBlock:
    return TranscriptBlock((key,), openai.parts({"role": "assistant", key: message[key]}))


def _contents(message: dict[str, Any]) -> Iterator[TranscriptBlock]:
    content = message.get("content")
    if isinstance(content, list | tuple):
        for position, block in enumerate(content):
            read = openai.parts({"role": "user", "content": [block]})
            yield TranscriptBlock(("content", position), read)
    elif content is not None:
        yield TranscriptBlock(("content",), openai.parts({"role": "user", "content": content}))


def _reasoning(item: dict[str, Any]) -> Iterator[TranscriptBlock]:
    found = [
        TranscriptBlock((key, position), openai.parts({"type": "reasoning", key: [block]}))
        for key in ("summary", "content")
        if isinstance(item.get(key), list | tuple)
        for position, block in enumerate(item[key])
    ]
    yield from found or [TranscriptBlock((), openai.parts(item))]


def _item(item: dict[str, Any]) -> Iterator[TranscriptBlock]:
    for part in openai.parts(item):
        if part.kind is PartKind.TOOL_CALL:
            yield TranscriptBlock(_path_if_present(item, _call_key(item)), (part,))
        elif part.kind is PartKind.TOOL_RESULT:
            key = _RESULTS.get(item["type"], "output")
            yield TranscriptBlock(_path_if_present(item, key), (part,), tuple(_elements(item, key)))
        else:
            yield TranscriptBlock((), (part,))


def _call_key(item: dict[str, Any]) -> str:
    key = _CALLS.get(item["type"], "arguments")
    return "actions" if key == "action" and item.get("actions") is not None else key


def _path_if_present(item: dict[str, Any], key: str) -> Path:
    return (key,) if key in item else ()


def _elements(item: dict[str, Any], key: str) -> Iterator[TranscriptBlock]:
    values = item.get(key)
    if not isinstance(values, list | tuple):
        return
    # Other fields of the item would be converted once per element.
    other_fields = {name: value for name, value in item.items() if name not in (key, "error")}
    other_fields.pop("tool_calls", None)
    for position, value in enumerate(values):
        read = openai.parts({**other_fields, key: [value]})
        results = [part for part in read if part.kind is PartKind.TOOL_RESULT]
        yield TranscriptBlock((key, position), results[0].parts if results else ())


def _openai_binary(value: Any) -> Iterator[Any]:
    if isinstance(value, str):
        # A generated image is the whole value of its field.
        yield value
        return
    image = value.get("image_url")
    yield image.get("url") if isinstance(image, dict) else image
    for inner in (value, value.get("file"), value.get("input_audio")):
        if isinstance(inner, dict):
            yield from (inner.get(key) for key in ("file_data", "data"))
    yield from (value.get(key) for key in ("url", "file_url"))


_BINARIES: dict[str, Callable[[Any], Iterator[Any]]] = {
    STRANDS: _strands_binary,
    OPENAI: _openai_binary,
    ASSISTANT_UI: assistant_ui.inline_binaries,
}


# --- binaries --------------------------------------------------------------------------------


def _references(part: Part, value: Any) -> Iterator[BlobRef]:
    """Yield the reference that replaces a text consisting of one data URL."""
    if part.size is not None:
        held = value.values() if isinstance(value, dict) else (value,)
        yield from (one for one in held if isinstance(one, BlobRef))


def _decode(value: Any) -> bytes | BlobRef | None:
    """Return the bytes or the reference of a value in any encoding of the frameworks."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, dict) and value.get("__bytes_encoded__") is True:
        value = value.get("data")
    if isinstance(value, BlobRef):
        return value
    if not isinstance(value, str) or value[:8].lower().startswith(("http:", "https:", "s3:")):
        return None
    if value[:5].lower() != "data:":
        return _decode_base64(value)
    header, comma, data = value.partition(",")
    if not comma:
        return None
    if header.lower().endswith(";base64"):
        return _decode_base64(data)
    return unquote_to_bytes(data)


def _decode_base64(text: str) -> bytes | None:
    compact = "".join(text.split()).rstrip("=")
    try:
        return base64.b64decode(compact + "=" * (-len(compact) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None
