"""Reads what sessions of the OpenAI Agents SDK hold: items of the Responses API, chat messages.

The formats: ``openai.types.responses`` (``ResponseInputItemParam``, ``ResponseOutputItem``),
``openai.types.conversations`` and ``openai.types.chat.ChatCompletionMessageParam``.

Items that are bookkeeping between the SDK and the API (compaction, references, lists of tools,
configuration) are parts of kind unknown, shown as they are. Neither kind of payload carries token
usage, so a summary has none.
"""

from __future__ import annotations

from django_agent_sessions.transcripts.parts import (
    EMPTY_SUMMARY,
    Part,
    Summary,
    neutral_role,
    unknown,
)
from django_agent_sessions.transcripts.text import readable, searchable

from . import items, messages


def parts(payload: object) -> tuple[Part, ...]:
    """Reads an item or a chat message."""
    if not isinstance(payload, dict):
        return (unknown(payload),)
    if messages.is_message(payload):
        return tuple(messages.parts(payload))
    reader = items.reader_of(payload)
    found = reader.read(payload) if reader is not None else None
    return (unknown(payload),) if found is None else found


def summary(payload: object) -> Summary:
    """Reads what the neutral columns hold of an item or a chat message.

    Args:
        payload: A Responses item, a chat message, or anything else that a session was given.

    Returns:
        The summary. An item without a role has that of its maker: calls and reasoning are the
        assistant's, outputs the tool's.
    """
    if not isinstance(payload, dict):
        return EMPTY_SUMMARY
    if messages.is_message(payload):
        text = searchable(messages.texts(payload))
        return Summary(neutral_role(payload.get("role")), text, None, None, None)
    reader = items.reader_of(payload)
    if reader is None:
        return Summary(neutral_role(payload.get("role")), "", None, None, None)
    text = searchable(readable(reader.contents(payload)))
    return Summary(reader.role, text, None, None, None)
