"""Items of the OpenAI Agents SDK: Responses API items and chat messages.

The formats: ``openai.types.responses`` (``ResponseInputItemParam``, ``ResponseOutputItem``),
``openai.types.conversations`` and ``openai.types.chat.ChatCompletionMessageParam``.

Items for communication between the SDK and the API (compaction, references, lists of tools,
configuration) are parts of kind unknown. No payload contains token usage, so that a summary has
none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from django_agent_sessions.content.dialects.base import (
    Dialect,
    ToolCallIds,
    TranscriptBlock,
    parts_of,
)
from django_agent_sessions.content.dialects.parts import (
    EMPTY_SUMMARY,
    Summary,
    has_error,
    join_searchable_text,
    neutral_role,
    readable_texts,
    unknown_part,
)
from django_agent_sessions.content.dialects.redaction import Message, Redactor

from . import items, messages, redaction
from .item_vocabulary import VOCABULARY


class OpenAI(Dialect):
    """Items of the Responses API, and messages of the chat API."""

    name = "openai"
    label = "OpenAI"
    version = 2
    has_run_states = True
    has_named_branches = True
    has_encrypted_summaries = True
    reports_usage = False
    vocabulary = VOCABULARY

    def recognize(self, payload: Mapping[str, Any]) -> bool:
        item = dict(payload)
        return messages.is_message(item) or items.find_reader(item) is not None

    def read(self, payload: object) -> Iterable[TranscriptBlock]:
        if isinstance(payload, dict):
            if messages.is_message(payload):
                return messages.message_blocks(payload)
            reader = items.find_reader(payload)
            found = reader.read(payload) if reader is not None else None
            if found is not None:
                return found
        return (TranscriptBlock((), (unknown_part(payload),)),)

    def summarize(self, payload: object) -> Summary:
        """Return the neutral columns of an item or a chat message.

        The role of an item without one depends on its type: assistant for calls and reasoning,
        tool for outputs.
        """
        if not isinstance(payload, dict):
            return EMPTY_SUMMARY
        if messages.is_message(payload):
            text = join_searchable_text([*messages.texts(payload)])
            return Summary(neutral_role(payload.get("role")), text, None, None, None)
        reader = items.find_reader(payload)
        if reader is None:
            return Summary(neutral_role(payload.get("role")), "", None, None, None)
        text = join_searchable_text(readable_texts(parts_of(reader.contents(payload))))
        failed = items.may_have_error(payload) and has_error(parts_of(reader.read(payload) or ()))
        return Summary(reader.role, text, None, None, None, failed)

    def call_ids(self, payload: object) -> ToolCallIds:
        if not isinstance(payload, dict):
            return ToolCallIds()
        if payload.get("type") in (None, "message"):
            return messages.message_call_ids(payload)
        return items.item_call_ids(payload)

    def binaries(self, block: Any) -> Iterator[Any]:
        if isinstance(block, str):
            # A generated image is the whole value of its field.
            yield block
            return
        image = block.get("image_url")
        yield image.get("url") if isinstance(image, dict) else image
        for inner in (block, block.get("file"), block.get("input_audio")):
            if isinstance(inner, dict):
                yield from (inner.get(key) for key in ("file_data", "data"))
        yield from (block.get(key) for key in ("url", "file_url"))

    def placeholder(self, block: Any, text: str) -> Any:
        kind = block.get("type") if isinstance(block, dict) else None
        is_responses = isinstance(kind, str) and kind.startswith("input_") and kind != "input_audio"
        return {"type": "input_text" if is_responses else "text", "text": text}

    def is_encrypted_summary(self, payload: object) -> bool:
        return isinstance(payload, dict) and payload.get("type") in redaction.COMPACTIONS

    def redact(self, message: Message, redactor: Redactor) -> Any:
        return redaction.redact_item(message, redactor)

    def drop_copies(self, before: Message, after: Message, changed: frozenset[str]) -> Message:
        if "logprobs" in after and "text" in changed:
            after["logprobs"] = []
        if "encrypted_content" in after and changed & {"summary", "content"}:
            after["encrypted_content"] = None
        return after
