"""Changes of stored messages: extended by Strands, and redacted by other processes."""

from __future__ import annotations

from typing import cast

from strands.types.content import ContentBlock, Message
from strands.types.exceptions import SessionException

from django_agent_sessions.content import masking
from django_agent_sessions.content.message_references import inline_positions
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.records import AgentRecord

from .conversation import Conversation
from .held_messages import HeldMessage


def row_of(conversation: Conversation) -> AgentRecord:
    if conversation.record is None:
        raise SessionException("The agent has no message yet")
    return conversation.record


def added_blocks(stored: HeldMessage, message: Message) -> list[ContentBlock]:
    """Return the blocks of a message after those that the agent had before."""
    return message["content"][len(stored.message["content"]) :]


def extended(
    store: SessionStore,
    conversation: Conversation,
    stored: HeldMessage,
    message: Message,
    added: list[ContentBlock] | None = None,
) -> Message:
    """Return a message with the content of its row, and the blocks that were added to it."""
    if added is None:
        added = added_blocks(stored, message)
    row = store.messages.find(row_of(conversation), stored.position)
    content = [] if row is None else row.content["content"]
    return cast("Message", {**message, "content": [*content, *added]})


def reload_messages(
    store: SessionStore, conversation: Conversation, record: AgentRecord
) -> set[str]:
    """Redact the messages in memory that were redacted in the database; return removed texts."""
    redacted = {
        row.message_id: row.content
        for row in store.messages.list(record)
        if row.redact_message is not None
    }
    # A rewind moves messages to another branch, so they are matched by their tracking ids.
    moved = {
        row.content.get("tracking_id"): row.content
        for row in store.messages.redacted_elsewhere(record)
    }
    conversation.find_held()
    reduced = inline_positions(record.data)
    secrets: set[str] = set()
    for stored in [*conversation.all_stored()]:
        content = moved.get(stored.message["tracking_id"], redacted.get(stored.position))
        # A redaction of a message removes its other forms from the agent's state.
        if content is None or (stored.original is None and stored.position in reduced):
            continue
        content = with_tracking_id_of(content, stored.message)
        if content != stored.original:
            secrets |= masking.masked_texts(stored.original or stored.message, content)
            overwrite(stored.message, content)
            conversation.remember(stored.position, stored.message, stored.key)
    return secrets


def overwrite(message: Message, redacted: Message) -> None:
    """Redact a message in memory, in place, because the agent holds this same dict."""
    if message is not redacted:
        message.clear()  # type: ignore[attr-defined] # a typed dict is a dict
        message.update(redacted)


def with_tracking_id_of(redacted: Message, original: Message) -> Message:
    """Set the original's tracking id if the redacted version has none."""
    if redacted.get("tracking_id") or not original.get("tracking_id"):
        return redacted
    return cast("Message", {**redacted, "tracking_id": original["tracking_id"]})
