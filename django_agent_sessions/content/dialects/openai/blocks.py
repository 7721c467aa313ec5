"""Conversion of content blocks and tool calls, which messages and items have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from django_agent_sessions.content.dialects.arguments import parse_json
from django_agent_sessions.content.dialects.base import TranscriptBlock
from django_agent_sessions.content.dialects.media import (
    Media,
    is_encoded_text,
    media_from_data,
    media_from_url,
    media_type,
)
from django_agent_sessions.content.dialects.parts import (
    Part,
    PartKind,
    binary_part,
    text_of,
    text_or_media_part,
    unknown_part,
)

Item: TypeAlias = dict[str, Any]
Parts: TypeAlias = tuple[Part, ...]
Blocks: TypeAlias = tuple[TranscriptBlock, ...]

_TEXTS = {
    "input_text": "text",
    "output_text": "text",
    "text": "text",
    "summary_text": "text",
    "refusal": "refusal",
}


def read_content(fields: Item, key: str) -> Blocks:
    """Return the blocks of a field that is a text or a list of blocks."""
    content = fields.get(key)
    if content is None:
        return ()
    if (text := text_or_media_part(PartKind.TEXT, content)) is not None:
        return (TranscriptBlock((key,), (text,)),)
    if isinstance(content, list | tuple):
        return tuple(
            TranscriptBlock((key, position), read_block(block))
            for position, block in enumerate(content)
        )
    return (TranscriptBlock((key,), (unknown_part(content),)),)


def read_block(block: object) -> tuple[Part, ...]:
    """Return the parts of a content block; an invalid one is of kind unknown."""
    kind = block.get("type") if isinstance(block, dict) else None
    if not isinstance(block, dict) or not isinstance(kind, str):
        return (unknown_part(block),)
    key = _TEXTS.get(kind)
    if key is not None and isinstance(block.get(key), str):
        return (text_part(block[key], citations=block.get("annotations")),)
    reader = _BLOCKS.get(kind)
    found = reader(block) if reader is not None else None
    if key is not None:
        found = text_or_media_part(PartKind.TEXT, block.get(key))
    return (found if found is not None else unknown_part(block),)


def text_part(text: str, *, citations: object = None) -> Part:
    """Return the part for a text."""
    return Part(PartKind.TEXT, text=text, data=citations or None)


def reasoning_part(block: Item) -> Part | None:
    """Return the part for a reasoning block, or None if it is invalid."""
    text = block.get("text")
    return Part(PartKind.REASONING, text=text) if isinstance(text, str) else None


def _image(block: Item) -> Part | None:
    # The chat API nests the URL one level deeper than the Responses API.
    reference = block.get("image_url")
    if isinstance(reference, dict):
        reference = reference.get("url")
    if is_encoded_text(reference):
        return binary_part(
            PartKind.IMAGE, media_from_url(reference), data=present_fields(block, "file_id")
        )
    if isinstance(block.get("file_id"), str):
        return Part(PartKind.IMAGE, data=present_fields(block, "file_id"))
    return None


def _file(block: Item) -> Part | None:
    # The chat API nests the fields one level deeper than the Responses API.
    fields = block.get("file", block)
    if not isinstance(fields, dict):
        return None
    encoded, url = fields.get("file_data"), fields.get("file_url")
    media = Media()
    if is_encoded_text(encoded):
        media = media_from_data(encoded)
    elif is_encoded_text(url):
        media = media_from_url(url)
    elif not isinstance(fields.get("file_id"), str):
        return None
    return binary_part(
        PartKind.DOCUMENT,
        media,
        name=text_of(fields.get("filename")),
        data=present_fields(fields, "file_id"),
    )


def _audio(block: Item) -> Part | None:
    audio = block.get("input_audio")
    if not isinstance(audio, dict) or not is_encoded_text(audio.get("data")):
        return None
    media = media_from_data(audio["data"])
    declared_type = media_type("audio", audio.get("format")) or media.media_type
    return binary_part(PartKind.DOCUMENT, media._replace(media_type=declared_type))


def function_part(function: object, call_id: str) -> Part | None:
    """Return the part for a function call, or None if the value is invalid."""
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        return None
    return call_part(function["name"], call_id, parse_json(function.get("arguments")))


def call_part(name: str, call_id: str, arguments: object, status: str = "") -> Part:
    """Return the part for a tool call."""
    return Part(PartKind.TOOL_CALL, name=name, call_id=call_id, status=status, data=arguments)


def present_fields(fields: Item, *keys: str) -> dict[str, Any] | None:
    """Return the fields that are not None, or None if there are none."""
    return {key: fields[key] for key in keys if fields.get(key) is not None} or None


def read_each(fields: Item, key: str, read: Callable[[Item], Parts | None]) -> Blocks:
    """Return the blocks of a list; invalid values are of kind unknown."""
    values = fields.get(key)
    if values is None:
        return ()
    if not isinstance(values, list | tuple):
        return (TranscriptBlock((key,), (unknown_part(values),)),)
    found: list[TranscriptBlock] = []
    for position, value in enumerate(values):
        parts = read(value) if isinstance(value, dict) else None
        found.append(
            TranscriptBlock((key, position), (unknown_part(value),) if parts is None else parts)
        )
    return tuple(found)


_BLOCKS: dict[str, Callable[[Item], Part | None]] = {
    "reasoning_text": reasoning_part,
    "input_image": _image,
    "image_url": _image,
    "computer_screenshot": _image,
    "input_file": _file,
    "file": _file,
    "input_audio": _audio,
}
