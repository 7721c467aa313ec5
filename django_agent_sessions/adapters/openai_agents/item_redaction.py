"""Replace an item with its redacted version and keep its links to other items."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django_agent_sessions.exceptions import PayloadError
from django_agent_sessions.values.records import MessageRecord

_LINK_FIELDS = ("type", "role", "call_id", "tool_call_id", "approval_request_id")
_KEPT_FIELDS = frozenset({*_LINK_FIELDS, "id", "status"})


def redact_openai_item(record: MessageRecord, replacement: Any) -> Any:
    """Return the redacted version of an item."""
    item = record.content
    if isinstance(replacement, str):
        return _replace_text(record.message_id, item, replacement)
    if not isinstance(item, dict) or not isinstance(replacement, Mapping):
        raise PayloadError(f"item {record.message_id} and its replacement must be dicts")
    changed = [name for name in _LINK_FIELDS if item.get(name) != replacement.get(name)]
    if changed:
        raise PayloadError(
            f"the replacement of item {record.message_id} must keep its {' and '.join(changed)}"
        )
    return dict(replacement)


def _replace_text(position: int, item: Any, text: str) -> dict[str, Any]:
    """Keep only the type, links and status of an item."""
    if isinstance(item, dict):
        kept = {name: value for name, value in item.items() if name in _KEPT_FIELDS}
        if item.get("type") == "function_call_output":
            return {**kept, "output": text}
        if "role" in item and "content" in item and "tool_calls" not in item:
            return {**kept, "content": _content_parts(item, text)}
    raise PayloadError(
        f"item {position} is neither a message nor a function call output: pass a complete "
        "replacement item"
    )


def _content_parts(message: dict[str, Any], text: str) -> Any:
    if not isinstance(message["content"], list):
        return text
    if message["role"] == "assistant":
        return [{"type": "output_text", "text": text, "annotations": []}]
    return [{"type": "input_text", "text": text}]
