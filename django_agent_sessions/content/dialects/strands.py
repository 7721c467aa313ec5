"""Conversion of the messages of Strands Agents, in the format of Amazon Bedrock's Converse API.

The formats: ``strands.types.content``, ``.media``, ``.tools`` and ``.citations``, and
https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ContentBlock.html

A cache point is an instruction to the provider and has no part.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from django_agent_sessions.content.paths import Path
from django_agent_sessions.values.token_counts import TokenCounts, token_counts

from .base import Dialect, ToolCallIds, TranscriptBlock, ValueKindOf
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
    binary_part,
    count_of,
    join_searchable_text,
    neutral_role,
    readable_texts,
    result_part,
    text_of,
    text_or_media_part,
    unknown_part,
)
from .redaction import Message, Redactor, mask
from .strands_redaction import redacted_block, redacted_metadata
from .vocabulary import ValueKind, Vocabulary, terms

_Parts = tuple[Part, ...]
_Reader = Callable[[Any], _Parts | None]
"""Converts the value of one block; returns None if the value is invalid for the block."""

_STATUSES = frozenset({"success", "error"})
_FIRST_RESULT = re.compile(
    r'\{\s*(?:"[^"\\]*"\s*:\s*"[^"\\]*"\s*,\s*)*"content"\s*:\s*\[\s*\{\s*"toolResult"\s*:'
)
_ROLES = ("user", "assistant")
_COUNTS = (
    "inputTokens",
    "outputTokens",
    "totalTokens",
    "cacheReadInputTokens",
    "cacheWriteInputTokens",
)


def _document_name(parent: Message, value: object) -> ValueKind | None:
    """Return the kind of the name of a document."""
    is_document = "source" in parent and "format" in parent
    return ValueKind.DOCUMENT if is_document and isinstance(value, str) else None


class Strands(Dialect):
    """Messages of Strands Agents."""

    name = "strands"
    label = "Strands"
    version = 2
    may_answer_twice = True
    has_windows = True
    vocabulary: ClassVar[Vocabulary] = Vocabulary(
        enums=terms("format role status stop_reason stopReason type"),
        names=terms(
            """
            __name__ completed_nodes execution_order failed_nodes handoff_node interrupted_nodes
            model next_nodes_to_execute node_history
            """
        ),
        name_keyed=terms("node_results results"),
        id_keyed=terms("interrupts"),
        ids=terms("id response_id tool_use_id toolUseId tracking_id"),
        prefixed_ids=terms("id"),
        tools=terms("input interrupt_id toolUseId"),
        counts=terms("accumulated_metrics accumulated_usage metrics usage"),
        numbers=terms(
            """
            created_at documentChunk documentIndex end execution_count execution_time index
            message_id removed_message_count start
            """
        ),
        free=terms(
            """
            app_data custom input invocation_state json reason response shared_context
            structuredContent
            """
        ),
        sealed=terms("signature"),
        base64=terms("bytes data"),
        keys=terms(
            """
            __bytes_encoded__ _internal_state activated assistant_message bucketOwner bytes
            cachePoint cacheReadInputTokens cacheWriteInputTokens checkpoint citations
            citationsContent completed_tool_results content context current_task cycle_durations
            data description document documentChar documentPage domain domainLocation error
            guardContent image inputTokens interrupt_state latencyMs location message messages
            metadata model_state name outcome outputTokens pinned qualifiers reasoningContent
            reasoningSignature reasoningText redactedContent result s3Location searchResultIndex
            source sourceContent state structured_output summary summary_message text
            timeToFirstByteMs title tool_metrics tool_result toolResult tools toolUse totalTokens
            traces ttl uri url value version video web
            """
        ),
        words=terms(
            """
            aac agent_result assistant audio cancelled checkpoint completed content_filtered csv
            default doc document docx end_turn error executing failed flac flv gif graph
            guardrail_intervened html image interrupt interrupted jpeg jpg limit_output_tokens
            limit_total_tokens limit_turns max_tokens md message mkv mov mp3 mp4 mpeg mpg
            multiagent_result node_result opus pdf pending png regular stop_sequence success svg
            swarm system text three_gp tool_use txt unknown user video wav webm webp wmv xls xlsx
            """
        ),
    )
    value_kinds: ClassVar[Mapping[str, ValueKindOf]] = {"name": _document_name}

    def recognize(self, payload: Mapping[str, Any]) -> bool:
        content = payload.get("content")
        return (
            "type" not in payload
            and isinstance(content, list)
            and all(isinstance(block, dict) and "type" not in block for block in content)
            and bool(content)
        )

    def read(self, payload: object) -> Iterator[TranscriptBlock]:
        content = payload.get("content") if isinstance(payload, dict) else None
        if isinstance(content, list | tuple):
            for position, block in enumerate(content):
                path = ("content", position)
                parts = tuple(_block(block, _BLOCKS))
                yield TranscriptBlock(path, parts, tuple(_result_contents(block, path)))
        elif (part := text_or_media_part(PartKind.TEXT, content)) is not None:
            yield TranscriptBlock(("content",), (part,))
        else:
            yield TranscriptBlock((), (unknown_part(payload),))

    def summarize(self, payload: object) -> Summary:
        """Return the neutral columns; tokens and latency are those of the ``metadata``.

        The role is the stored one, which is ``"user"`` for a message of tool results.
        """
        if not isinstance(payload, dict):
            return EMPTY_SUMMARY
        content = payload.get("content")
        failed, texts = _has_error(content), [*_texts(content)]
        role, text = neutral_role(payload.get("role")), join_searchable_text(texts)
        metadata = payload.get("metadata")
        if not isinstance(metadata, dict):
            return Summary(role, text, None, None, None, failed)
        usage, metrics = metadata.get("usage"), metadata.get("metrics")
        if not isinstance(usage, dict):
            usage = {}
        latency = count_of(metrics.get("latencyMs")) if isinstance(metrics, dict) else None
        read, written, *cached = _counts(usage)
        return Summary(role, text, read, written, latency, failed, *cached)

    def call_ids(self, payload: object) -> ToolCallIds:
        content = payload.get("content") if isinstance(payload, dict) else None
        # Most messages are texts only.
        if isinstance(content, list) and all(
            isinstance(block, dict) and len(block) == 1 and "text" in block for block in content
        ):
            return ToolCallIds()
        return super().call_ids(payload)

    def begins_with_result(self, text: str) -> bool:
        """Return whether the first block is a result: results have the role of the user."""
        return _FIRST_RESULT.match(text) is not None

    def binaries(self, block: Any) -> Iterator[Any]:
        for value in block.values():
            inner = value.get("image", value) if isinstance(value, dict) else {}
            source = inner.get("source")
            if isinstance(source, dict):
                yield source.get("bytes")

    def placeholder(self, block: Any, text: str) -> Any:
        return {"text": text}

    def messages_in(self, document: Any) -> Iterator[tuple[Path, Any]]:
        """Yield the messages of a snapshot, and those of the nodes of a graph or a swarm."""
        yield from _messages(document, ())

    def redact(self, message: Message, redactor: Redactor) -> Any:
        redacted: Message = {}
        for key, value in message.items():
            if key == "role" and redactor.vocabulary.is_word(value):
                redacted[key] = value
            elif key == "tracking_id" and isinstance(value, str):
                redacted[key] = redactor.safe_id(value)
            elif key == "content":
                blocks = value if isinstance(value, list) else [value]
                redacted[key] = [redacted_block(block, redactor) for block in blocks]
            elif key == "metadata" and isinstance(value, dict):
                redacted[key] = redacted_metadata(value, redactor)
        return redacted

    def replace(self, message: Message, redactor: Redactor) -> Any:
        return {**super().replace(message, redactor), "content": [{"text": mask()}]}

    def drop_copies(self, before: Message, after: Message, changed: frozenset[str]) -> Message:
        reasoning = after.get("reasoningContent")
        text = reasoning.get("reasoningText") if isinstance(reasoning, dict) else None
        is_signed = isinstance(text, dict) and bool(text.get("signature"))
        # Providers reject reasoning whose signature does not match.
        return {"text": mask()} if "reasoningContent" in changed and is_signed else after


def _counts(usage: Mapping[str, Any]) -> TokenCounts:
    return token_counts(*(count_of(usage.get(name)) for name in _COUNTS))


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


def _has_error(content: object) -> bool:
    return isinstance(content, list | tuple) and any(
        isinstance(block, dict)
        and isinstance(result := block.get("toolResult"), dict)
        and result.get("status") == "error"
        and isinstance(result.get("content"), list | tuple)
        for block in content
    )


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
        part = binary_part(
            kind,
            _source(source),
            media_type=media_type(family, value.get("format")),
            text=_source_text(source),
            name=text_of(value.get("name")),
            data={"context": value["context"]} if value.get("context") else None,
        )
        return (part,)

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


def _result_contents(block: object, path: Path) -> Iterator[TranscriptBlock]:
    result = block.get("toolResult") if isinstance(block, dict) else None
    contents = result.get("content") if isinstance(result, dict) else None
    if isinstance(contents, list | tuple):
        for position, content in enumerate(contents):
            parts = tuple(_block(content, _RESULT_BLOCKS))
            yield TranscriptBlock((*path, "toolResult", "content", position), parts)


def _messages(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict):
        if value.get("role") in _ROLES and isinstance(value.get("content"), list):
            yield path, value
        else:
            for key, item in value.items():
                yield from _messages(item, (*path, key))
    elif isinstance(value, list):
        for position, item in enumerate(value):
            yield from _messages(item, (*path, position))
