"""Replacing an item so that it still answers, and is answered by, the same ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django_agent_sessions.exceptions import PayloadError
from django_agent_sessions.records import AgentRecord, MessageRecord
from django_agent_sessions.store import SessionStore

_TIES = ("type", "role", "call_id", "tool_call_id", "approval_request_id")
_FRAME = frozenset({*_TIES, "id", "status"})


def item_at(position: int, agent: AgentRecord, store: SessionStore) -> MessageRecord | None:
    """Finds an item by its place in the conversation: 0 is the first, -1 the latest."""
    # By its place and not by its id, of which an append that met a removal may leave some out.
    forwards = position >= 0
    count = position + 1 if forwards else -position
    found = store.messages(agent, limit=count) if forwards else store.latest(agent, count)
    # Fewer if the conversation is shorter, or an item among them is corrupt: never guess.
    return found[-1 if forwards else 0] if len(found) == count else None


def redacted(found: MessageRecord, replacement: Any) -> Any:
    """Makes the redacted version of an item."""
    item = found.content
    if isinstance(replacement, str):
        return _reworded(found.message_id, item, replacement)
    if not isinstance(item, dict) or not isinstance(replacement, Mapping):
        raise PayloadError(f"item {found.message_id} can only be replaced by an item")
    changed = [name for name in _TIES if item.get(name) != replacement.get(name)]
    if changed:
        raise PayloadError(
            f"the replacement of item {found.message_id} must keep its {' and '.join(changed)}"
        )
    return dict(replacement)


def _reworded(position: int, item: Any, words: str) -> dict[str, Any]:
    """Keeps nothing of an item but its frame."""
    if isinstance(item, dict):
        frame = {name: value for name, value in item.items() if name in _FRAME}
        if item.get("type") == "function_call_output":
            return {**frame, "output": words}
        if "role" in item and "content" in item and "tool_calls" not in item:
            return {**frame, "content": _content(item, words)}
    raise PayloadError(
        f"item {position} is neither a message nor a function's output: "
        "give the item that is to replace it"
    )


def _content(message: dict[str, Any], words: str) -> Any:
    if not isinstance(message["content"], list):
        return words
    if message["role"] == "assistant":
        return [{"type": "output_text", "text": words, "annotations": []}]
    return [{"type": "input_text", "text": words}]
