"""Conversion of the messages of Strands Agents, in the format of Amazon Bedrock's Converse API.

The formats: ``strands.types.content``, ``.media``, ``.tools`` and ``.citations``, and
https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ContentBlock.html

A cache point is an instruction to the provider and has no part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .media import (
    EncodedText,
    Media,
    base64_size,
    binary_size,
    is_binary,
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
    count_of,
    neutral_role,
    result_part,
    text_of,
    text_or_media_part,
    unknown_part,
)
from .text import join_searchable_text, readable_texts

_Parts = tuple[Part, ...]
_Reader = Callable[[Any], _Parts | None]
"""Converts the value of one block; returns None if the value is invalid for the block."""

_STATUSES = frozenset({"success", "error"})


def parts(message: object) -> tuple[Part, ...]:
    """Return the parts of a message."""
    content = message.get("content") if isinstance(message, dict) else None
    if (part := text_or_media_part(PartKind.TEXT, content)) is not None:
        return (part,)
    if not isinstance(content, list | tuple):
        return (unknown_part(message),)
    return tuple(part for block in content for part in _block(block, _BLOCKS))


def summary(message: object) -> Summary:
    """Return the neutral columns of a message.

    Token counts and latency are those of its ``metadata``. The role is the stored one, which is
    ``"user"`` for a message of tool results.
    """
    if not isinstance(message, dict):
        return EMPTY_SUMMARY
    role = neutral_role(message.get("role"))
    text = join_searchable_text(_texts(message.get("content")))
    metadata = message.get("metadata")
    if not isinstance(metadata, dict):
        return Summary(role, text, None, None, None)
    usage, metrics = metadata.get("usage"), metadata.get("metrics")
    if not isinstance(usage, dict):
        usage = {}
    return Summary(
        role,
        text,
        count_of(usage.get("inputTokens")),
        count_of(usage.get("outputTokens")),
        count_of(metrics.get("latencyMs")) if isinstance(metrics, dict) else None,
    )


def _texts(content: object) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list | tuple):
        for block in content:
            # Fast path for the most frequent block.
            if isinstance(block, dict) and len(block) == 1 and isinstance(block.get("text"), str):
                yield block["text"]
            else:
                yield from readable_texts(_block(block, _BLOCKS))


def _block(block: object, readers: Mapping[str, _Reader]) -> Iterator[Part]:
    """Convert a block: a dict, usually with one key, which is the type of its value."""
    if not isinstance(block, dict) or not block:
        yield unknown_part(block)
        return
    for key, value in block.items():
        reader = readers.get(key) if isinstance(key, str) else None
        found = reader(value) if reader is not None else None
        if found is not None:
            yield from found
        else:
            yield unknown_part({key: value})


def _text(value: Any) -> _Parts | None:
    part = text_or_media_part(PartKind.TEXT, value)
    return None if part is None else (part,)


def _reasoning(value: Any) -> _Parts | None:
    if not isinstance(value, dict):
        return None
    found = []
    if "reasoningText" in value:
        reasoning_text = value["reasoningText"]
        if not isinstance(reasoning_text, dict) or not isinstance(reasoning_text.get("text"), str):
            return None
        found.append(Part(PartKind.REASONING, text=reasoning_text["text"]))
    if "redactedContent" in value:
        size = _size(value["redactedContent"])
        if size is None:
            return None
        found.append(Part(PartKind.REASONING, size=size))
    return tuple(found) or None


def _tool_use(value: Any) -> _Parts | None:
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        return None
    call_id = text_of(value.get("toolUseId"))
    return (Part(PartKind.TOOL_CALL, name=value["name"], call_id=call_id, data=value.get("input")),)


def _tool_result(value: Any) -> _Parts | None:
    content = value.get("content") if isinstance(value, dict) else None
    if not isinstance(content, list | tuple):
        return None
    status = value.get("status")
    return (
        result_part(
            tuple(part for block in content for part in _block(block, _RESULT_BLOCKS)),
            call_id=text_of(value.get("toolUseId")),
            status=status if isinstance(status, str) and status in _STATUSES else "",
            # The structured result of an MCP tool: strands.tools.mcp.mcp_types.
            data=value.get("structuredContent"),
        ),
    )


def _json(value: Any) -> _Parts:
    return (Part(PartKind.TOOL_RESULT, data=value),)


def _media(kind: PartKind, family: str) -> _Reader:
    def read(value: Any) -> _Parts | None:
        source = value.get("source") if isinstance(value, dict) else None
        if not isinstance(source, dict):
            return None
        found = _source(source)
        return (
            Part(
                kind,
                text=_source_text(source),
                name=text_of(value.get("name")),
                data={"context": value["context"]} if value.get("context") else None,
                media_type=media_type(family, value.get("format")) or found.media_type,
                size=found.size,
                url=found.url,
            ),
        )

    return read


def _source(source: dict[str, Any]) -> Media:
    if "bytes" in source:
        data = source["bytes"]
        return media_from_data(data) if is_encoded_text(data) else Media(size=_size(data))
    location = source.get("location", source.get("s3Location"))
    if isinstance(location, dict):
        return media_from_url(_address(location, "uri") or _address(location, "url"))
    return Media()


def _address(location: dict[str, Any], key: str) -> EncodedText:
    value = location.get(key)
    return value if is_encoded_text(value) else ""


def _source_text(source: dict[str, Any]) -> str:
    """Return the text of a text document, which Bedrock's API supports."""
    return text_of(source.get("text")) or "\n".join(_all_texts(source.get("content")) or ())


def _size(value: object) -> int | None:
    """Return the size of bytes, or of the base64 marker that Strands writes for them."""
    if is_binary(value):
        return binary_size(value)
    if isinstance(value, dict) and value.get("__bytes_encoded__") is True:
        data = value.get("data")
        return base64_size(data) if is_encoded_text(data) else None
    return None


def _guard_content(value: Any) -> _Parts | None:
    if not isinstance(value, dict) or not value:
        return None
    found: list[Part] = []
    for key, inner in value.items():
        if key == "text" and isinstance(inner, dict) and isinstance(inner.get("text"), str):
            found.append(Part(PartKind.TEXT, text=inner["text"]))
        elif key == "image" and (image := _image(inner)) is not None:
            found.extend(image)
        else:
            return None
    return tuple(found)


def _citations(value: Any) -> _Parts | None:
    texts = _all_texts(value.get("content")) if isinstance(value, dict) else None
    if texts is None:
        return None
    return (Part(PartKind.TEXT, text="".join(texts), data=value.get("citations") or None),)


def _all_texts(content: object) -> list[str] | None:
    """Return the texts of ``[{"text": …}, …]``, or None if it has another format."""
    if not isinstance(content, list | tuple):
        return None
    texts = []
    for block in content:
        text = block.get("text") if isinstance(block, dict) else None
        if not isinstance(text, str):
            return None
        texts.append(text)
    return texts


def _cache_point(value: Any) -> _Parts | None:
    return () if isinstance(value, dict) else None


_image = _media(PartKind.IMAGE, "image")

_RESULT_BLOCKS: dict[str, _Reader] = {
    "text": _text,
    "json": _json,
    "image": _image,
    "document": _media(PartKind.DOCUMENT, "document"),
    "video": _media(PartKind.DOCUMENT, "video"),
    "audio": _media(PartKind.DOCUMENT, "audio"),
    "cachePoint": _cache_point,
}
# Results do not nest, which bounds the depth.
_BLOCKS: dict[str, _Reader] = {
    **{key: reader for key, reader in _RESULT_BLOCKS.items() if key != "json"},
    "reasoningContent": _reasoning,
    "toolUse": _tool_use,
    "toolResult": _tool_result,
    "guardContent": _guard_content,
    "citationsContent": _citations,
}
