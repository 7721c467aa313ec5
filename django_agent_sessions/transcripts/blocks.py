"""The addresses of what a payload holds: which part stands where, so that it can be pointed at.

A path leads from the payload to a value in it, key by key: ``("content", 3)`` is the fourth block
of a message, ``("content", 1, "toolResult", "content", 0)`` what a tool returned first, and
``("arguments",)`` what an OpenAI item calls its tool with. What a block says, the readers of the
dialects tell: each block is given to them alone.
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

from django_agent_sessions.references import BlobRef, Path, value_at

from . import assistant_ui, openai, strands
from .formats import ASSISTANT_UI, OPENAI, STRANDS
from .media import is_encoded
from .parts import Part, PartKind, unknown

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
class Block:
    """One block of a payload, and where it stands."""

    path: Path
    """From the payload to the block; empty for the payload itself."""

    parts: tuple[Part, ...]
    """What it says; mostly one part. None for what is no content, such as a cache point."""

    inner: tuple[Block, ...] = ()
    """The contents of a tool result one by one, each with an address of its own."""


def blocks(dialect: str, payload: object) -> tuple[Block, ...]:
    """Takes a payload apart."""
    # A payload is foreign data; whatever it does to a reader, a page must still show it.
    try:
        if dialect == STRANDS:
            return tuple(_strands(payload))
        if dialect == OPENAI:
            return tuple(_openai(payload))
        if dialect == ASSISTANT_UI:
            return tuple(Block(*found) for found in assistant_ui.placed(payload))
    except Exception:
        return (Block((), (unknown(payload),)),)
    return (Block((), (unknown(payload),)),)


def address_of(path: Path) -> str:
    """Writes a path as JSON, for a link or an attribute."""
    return json.dumps(list(path), separators=(",", ":"))


def path_of(address: str) -> Path:
    """Reads a path that was written as JSON."""
    try:
        found = json.loads(address)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(found, list) or not all(type(step) in (str, int) for step in found):
        raise ValueError("no list of keys and positions")
    return tuple(found)


def part_at(dialect: str, payload: object, path: Path) -> Part | None:
    """Finds what stands at an address."""
    for block in blocks(dialect, payload):
        for found in (block, *block.inner):
            if found.path == path and found.parts:
                return found.parts[0]
    return None


def binary(dialect: str, payload: object, path: Path) -> tuple[bytes | BlobRef, str] | None:
    """Takes an image, document, recording or video out of a payload."""
    part = part_at(dialect, payload, path)
    if part is None:
        return None
    if part.kind is PartKind.TOOL_RESULT and part.parts:
        # A result that is nothing but a picture has no list of contents to point into.
        part = part.parts[0]
    if part.kind not in (PartKind.IMAGE, PartKind.DOCUMENT):
        return None
    try:
        value = value_at(payload, path)
        # A reference may stand by itself where one text stood, or in the place of a block's text.
        read = iter(()) if isinstance(value, BlobRef) else _BINARIES[dialect](value)
        candidates = map(_decoded, itertools.chain(read, _instead(part, value)))
        found = next((data for data in candidates if data is not None), None)
    except (LookupError, TypeError, AttributeError, ValueError, binascii.Error):
        return None
    return None if found is None else (found, part.media_type)


# --- Strands ---------------------------------------------------------------------------------


def _strands(message: object) -> Iterator[Block]:
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, list | tuple):
        for position, block in enumerate(content):
            path = ("content", position)
            yield Block(path, strands.parts({"content": [block]}), tuple(_results(block, path)))
    elif is_encoded(content):
        yield Block(("content",), strands.parts(message))
    else:
        yield Block((), strands.parts(message))


def _results(block: object, path: Path) -> Iterator[Block]:
    result = block.get("toolResult") if isinstance(block, dict) else None
    contents = result.get("content") if isinstance(result, dict) else None
    if not isinstance(result, dict) or not isinstance(contents, list | tuple):
        return
    for position, content in enumerate(contents):
        alone = {key: value for key, value in result.items() if key != "structuredContent"}
        read = strands.parts({"content": [{"toolResult": {**alone, "content": [content]}}]})
        found = read[0].parts if read else ()
        yield Block((*path, "toolResult", "content", position), found)


def _strands_binary(block: Any) -> Iterator[Any]:
    for value in block.values():
        inner = value.get("image", value) if isinstance(value, dict) else {}
        source = inner.get("source")
        if isinstance(source, dict):
            yield source.get("bytes")


# --- OpenAI ----------------------------------------------------------------------------------


def _openai(item: object) -> Iterator[Block]:
    if not isinstance(item, dict):
        yield Block((), openai.parts(item))
    elif item.get("type", "message") == "message":
        yield from _message(item)
    elif item["type"] == "reasoning":
        yield from _reasoning(item)
    else:
        yield from _item(item)


def _message(message: dict[str, Any]) -> Iterator[Block]:
    whole = openai.parts(message)
    if len(whole) == 1 and whole[0].kind is PartKind.UNKNOWN and whole[0].data is message:
        yield Block((), whole)
        return
    if message.get("reasoning_content") is not None:
        yield _alone(message, "reasoning_content")
    if "tool_call_id" in message or message.get("role") == "function":
        result = tuple(part for part in whole if part.kind is PartKind.TOOL_RESULT)
        yield Block(("content",), result, tuple(_elements(message, "content")))
    else:
        yield from _contents(message)
        yield from (_alone(message, key) for key in _EXTRAS if message.get(key) is not None)
    calls = message.get("tool_calls")
    if isinstance(calls, list | tuple):
        for position, call in enumerate(calls):
            read = openai.parts({"role": "assistant", "tool_calls": [call]})
            yield Block(("tool_calls", position), read)
    elif calls is not None:
        yield _alone(message, "tool_calls")
    if message.get("function_call") is not None:
        yield _alone(message, "function_call")


def _alone(message: dict[str, Any], key: str) -> Block:
    return Block((key,), openai.parts({"role": "assistant", key: message[key]}))


def _contents(message: dict[str, Any]) -> Iterator[Block]:
    content = message.get("content")
    if isinstance(content, list | tuple):
        for position, block in enumerate(content):
            read = openai.parts({"role": "user", "content": [block]})
            yield Block(("content", position), read)
    elif content is not None:
        yield Block(("content",), openai.parts({"role": "user", "content": content}))


def _reasoning(item: dict[str, Any]) -> Iterator[Block]:
    found = [
        Block((key, position), openai.parts({"type": "reasoning", key: [block]}))
        for key in ("summary", "content")
        if isinstance(item.get(key), list | tuple)
        for position, block in enumerate(item[key])
    ]
    yield from found or [Block((), openai.parts(item))]


def _item(item: dict[str, Any]) -> Iterator[Block]:
    for part in openai.parts(item):
        if part.kind is PartKind.TOOL_CALL:
            yield Block(_existing(item, _call_key(item)), (part,))
        elif part.kind is PartKind.TOOL_RESULT:
            key = _RESULTS.get(item["type"], "output")
            yield Block(_existing(item, key), (part,), tuple(_elements(item, key)))
        else:
            yield Block((), (part,))


def _call_key(item: dict[str, Any]) -> str:
    key = _CALLS.get(item["type"], "arguments")
    return "actions" if key == "action" and item.get("actions") is not None else key


def _existing(item: dict[str, Any], key: str) -> Path:
    return (key,) if key in item else ()


def _elements(item: dict[str, Any], key: str) -> Iterator[Block]:
    values = item.get(key)
    if not isinstance(values, list | tuple):
        return
    # What is beside the list would be read as if each element had said it.
    beside = {name: value for name, value in item.items() if name not in (key, "error")}
    beside.pop("tool_calls", None)
    for position, value in enumerate(values):
        read = openai.parts({**beside, key: [value]})
        results = [part for part in read if part.kind is PartKind.TOOL_RESULT]
        yield Block((key, position), results[0].parts if results else ())


def _openai_binary(value: Any) -> Iterator[Any]:
    if isinstance(value, str):
        # A drawing stands in its field by itself.
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


def _instead(part: Part, value: Any) -> Iterator[BlobRef]:
    """Finds the reference that stands where a text was nothing but a data URL."""
    if part.size is not None:
        held = value.values() if isinstance(value, dict) else (value,)
        yield from (one for one in held if isinstance(one, BlobRef))


def _decoded(value: Any) -> bytes | BlobRef | None:
    """Decodes bytes in any of the forms in which frameworks carry them."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, dict) and value.get("__bytes_encoded__") is True:
        value = value.get("data")
    if isinstance(value, BlobRef):
        return value
    if not isinstance(value, str) or value[:8].lower().startswith(("http:", "https:", "s3:")):
        return None
    if value[:5].lower() != "data:":
        return _unbase64(value)
    header, comma, data = value.partition(",")
    if not comma:
        return None
    if header.lower().endswith(";base64"):
        return _unbase64(data)
    return unquote_to_bytes(data)


def _unbase64(text: str) -> bytes | None:
    compact = "".join(text.split()).rstrip("=")
    try:
        return base64.b64decode(compact + "=" * (-len(compact) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None
