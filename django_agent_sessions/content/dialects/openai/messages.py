"""Conversion of chat messages and of the messages of the Responses API."""

from __future__ import annotations

from collections.abc import Iterator

from django_agent_sessions.content.dialects.arguments import parse_json_container
from django_agent_sessions.content.dialects.base import ToolCallIds, TranscriptBlock, parts_of
from django_agent_sessions.content.dialects.media import base64_size, is_encoded_text, media_type
from django_agent_sessions.content.dialects.parts import (
    Part,
    PartKind,
    readable_texts,
    result_part,
    text_of,
    unknown_part,
)

from . import blocks
from .blocks import Item

_CONTENT_KEYS = frozenset(
    {"content", "refusal", "tool_calls", "function_call", "audio", "reasoning_content"}
)
_EXTRA_KEYS = frozenset({"refusal", "audio"})


def is_message(payload: Item) -> bool:
    """Return whether a payload is a message of the Responses API or of the chat API."""
    kind = payload.get("type")
    if kind is None:
        return isinstance(payload.get("role"), str) and not _CONTENT_KEYS.isdisjoint(payload)
    return kind == "message" and not _CONTENT_KEYS.isdisjoint(payload)


def message_blocks(message: Item) -> Iterator[TranscriptBlock]:
    """Yield the blocks of a message: its reasoning, its content, and its calls."""
    yield from _reasoning(message)
    content = blocks.read_content(message, "content")
    if "tool_call_id" in message or message.get("role") == "function":
        yield _result(message, content)
    else:
        yield from content
        yield from _extras(message)
    yield from _tool_calls(message)


def message_call_ids(message: Item) -> ToolCallIds:
    """Return the ids of the calls of a message, or of the call that it answers."""
    calls = message.get("tool_calls")
    call_list = calls if isinstance(calls, list) else []
    ids = [call.get("id") for call in call_list if isinstance(call, dict)]
    answered = message.get("tool_call_id")
    return ToolCallIds(
        tuple(known for known in ids if isinstance(known, str)),
        (answered,) if isinstance(answered, str) else (),
    )


def texts(message: Item) -> Iterator[str]:
    """Yield the texts of a message for the text column, without its calls."""
    content = message.get("content")
    # Fast path for the most frequent content.
    if isinstance(content, str):
        yield content
    elif isinstance(content, list | tuple):
        for block in content:
            if isinstance(block, dict) and block.get("type") in ("output_text", "input_text"):
                yield text_of(block.get("text"))
            else:
                yield from readable_texts(blocks.read_block(block))
    if not _EXTRA_KEYS.isdisjoint(message):
        yield from readable_texts(parts_of(_extras(message)))


def _result(message: Item, content: tuple[TranscriptBlock, ...]) -> TranscriptBlock:
    part = result_part(
        parts_of((*content, *_extras(message))),
        call_id=text_of(message.get("tool_call_id")),
        name=text_of(message.get("name")),
        data=parse_json_container(message.get("content")),
    )
    inner = content if isinstance(message.get("content"), list | tuple) else ()
    return TranscriptBlock(("content",) if "content" in message else (), (part,), inner)


def _extras(message: Item) -> Iterator[TranscriptBlock]:
    refusal = message.get("refusal")
    if refusal is not None:
        is_text = isinstance(refusal, str)
        part = blocks.text_part(refusal) if is_text else unknown_part({"refusal": refusal})
        yield TranscriptBlock(("refusal",), (part,))
    audio = message.get("audio")
    if audio is not None:
        yield TranscriptBlock(("audio",), (_spoken_audio(audio),))


def _reasoning(message: Item) -> Iterator[TranscriptBlock]:
    # Not in OpenAI's format, but written by compatible providers.
    reasoning = message.get("reasoning_content")
    if reasoning is not None:
        is_text = isinstance(reasoning, str)
        part = (
            Part(PartKind.REASONING, text=reasoning)
            if is_text
            else unknown_part({"reasoning_content": reasoning})
        )
        yield TranscriptBlock(("reasoning_content",), (part,))


def _tool_calls(message: Item) -> Iterator[TranscriptBlock]:
    calls = message.get("tool_calls")
    if isinstance(calls, list | tuple):
        for position, call in enumerate(calls):
            yield TranscriptBlock(("tool_calls", position), (_chat_call(call),))
    elif calls is not None:
        yield TranscriptBlock(("tool_calls",), (unknown_part({"tool_calls": calls}),))
    function = message.get("function_call")
    if function is not None:
        part = blocks.function_part(function, "") or unknown_part({"function_call": function})
        yield TranscriptBlock(("function_call",), (part,))


def _chat_call(call: object) -> Part:
    if not isinstance(call, dict):
        return unknown_part(call)
    call_id = text_of(call.get("id"))
    custom = call.get("custom")
    if isinstance(custom, dict) and isinstance(custom.get("name"), str):
        return blocks.call_part(custom["name"], call_id, custom.get("input"))
    return blocks.function_part(call.get("function"), call_id) or unknown_part(call)


def _spoken_audio(audio: object) -> Part:
    if not isinstance(audio, dict):
        return unknown_part({"audio": audio})
    data = audio.get("data")
    return Part(
        PartKind.DOCUMENT,
        text=text_of(audio.get("transcript")),
        data=blocks.present_fields(audio, "id"),
        media_type=media_type("audio", audio.get("format")),
        size=base64_size(data) if is_encoded_text(data) else None,
    )
