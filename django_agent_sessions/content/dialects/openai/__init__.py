"""Conversion of the items of the OpenAI Agents SDK: Responses API items and chat messages.

The formats: ``openai.types.responses`` (``ResponseInputItemParam``, ``ResponseOutputItem``),
``openai.types.conversations`` and ``openai.types.chat.ChatCompletionMessageParam``.

Items for communication between the SDK and the API (compaction, references, lists of tools,
configuration) are parts of kind unknown. No payload contains token usage, so that a summary has
none.
"""

from __future__ import annotations

from django_agent_sessions.content.dialects.parts import (
    EMPTY_SUMMARY,
    Part,
    Summary,
    neutral_role,
    unknown_part,
)
from django_agent_sessions.content.dialects.text import join_searchable_text, readable_texts

from . import items, messages


def parts(payload: object) -> tuple[Part, ...]:
    """Return the parts of an item or a chat message."""
    if not isinstance(payload, dict):
        return (unknown_part(payload),)
    if messages.is_message(payload):
        return tuple(messages.parts(payload))
    reader = items.find_reader(payload)
    found = reader.read(payload) if reader is not None else None
    return (unknown_part(payload),) if found is None else found


def summary(payload: object) -> Summary:
    """Return the neutral columns of an item or a chat message.

    The role of an item without one depends on its type: assistant for calls and reasoning, tool
    for outputs.
    """
    if not isinstance(payload, dict):
        return EMPTY_SUMMARY
    if messages.is_message(payload):
        text = join_searchable_text(messages.texts(payload))
        return Summary(neutral_role(payload.get("role")), text, None, None, None)
    reader = items.find_reader(payload)
    if reader is None:
        return Summary(neutral_role(payload.get("role")), "", None, None, None)
    text = join_searchable_text(readable_texts(reader.contents(payload)))
    return Summary(reader.role, text, None, None, None)
