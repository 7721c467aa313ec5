"""Redaction of whole items and chat messages.

Every provider accepts the result: a call keeps its id and name, a result the id of its call, and
a text with a mask replaces an image.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django_agent_sessions.content.blob_refs import PLACEHOLDER_IMAGE
from django_agent_sessions.content.dialects.redaction import Message, Redactor, mask, select
from django_agent_sessions.content.dialects.vocabulary import may_be_word

_TEXT_TYPES = frozenset({"input_text", "output_text", "text", "summary_text", "reasoning_text"})
_MASKS = {"IMAGE": "IMAGE", "FILE": "DOCUMENT", "AUDIO": "AUDIO"}
COMPACTIONS = ("compaction", "compaction_summary")


def redact_item(item: Message, redactor: Redactor) -> Message:
    """Redact all content of an item or a message."""
    if item.get("type") in COMPACTIONS:
        # The item consists of one required encrypted text.
        return {"type": "message", "role": "assistant", "content": mask()}
    if item.get("type") == "image_generation_call":
        # The other fields describe the image.
        item = select(item, "type", "id", "status", "result")
    redacted: Message = {}
    for key, value in item.items():
        if key == "name" and not redactor.vocabulary.is_tool(item):
            # The name of a person.
            continue
        if key == "type" and isinstance(value, str) and may_be_word(value):
            # Includes the types of items newer than the vocabulary.
            redacted[key] = value
        else:
            redacted[redactor.key(key)] = _field(item, key, value, redactor)
    return redacted


def _field(item: Message, key: str, value: Any, redactor: Redactor) -> Any:
    redact_field = _FIELDS.get(key)
    if redact_field is not None and value is not None:
        return redact_field(item, value, redactor)
    return redactor.field(key, value)


def _content(item: Message, value: Any, redactor: Redactor) -> Any:
    return [_block(block, redactor) for block in value] if isinstance(value, list) else mask()


def _block(block: Any, redactor: Redactor) -> Message:
    kind = block.get("type") if isinstance(block, dict) else None
    if not isinstance(kind, str):
        return {"type": "input_text", "text": mask()}
    if kind == "refusal":
        return {"type": kind, "refusal": mask()}
    if kind in _TEXT_TYPES:
        redacted = {"type": kind, "text": redactor.text(block.get("text"))}
        return {**redacted, "annotations": []} if kind == "output_text" else redacted
    # Images, files and audio are valid only in messages of users and in tool results.
    word = kind.removeprefix("input_").removesuffix("_url").upper()
    in_chat = kind in ("image_url", "file", "input_audio")
    return {"type": "text" if in_chat else "input_text", "text": mask(_MASKS.get(word, ""))}


def _output(item: Message, value: Any, redactor: Redactor) -> Any:
    if isinstance(value, dict) and value.get("type") == "computer_screenshot":
        return {"type": "computer_screenshot", "image_url": PLACEHOLDER_IMAGE}
    if item.get("type") == "shell_call_output":
        return redactor.values(value)
    return _content(item, value, redactor)


def _tool_calls(item: Message, value: Any, redactor: Redactor) -> Any:
    return [_tool_call(call, redactor) for call in value] if isinstance(value, list) else []


def _tool_call(call: Any, redactor: Redactor) -> Any:
    if not isinstance(call, dict):
        return mask()
    redacted: Message = redactor.ids(call, "id")
    if redactor.vocabulary.is_word(call.get("type")):
        redacted["type"] = call["type"]
    for key in ("function", "custom"):
        inner = call.get(key)
        if isinstance(inner, dict):
            redacted[key] = redactor.name(inner) | {
                name: "{}" if name == "arguments" else mask()
                for name in inner
                if name in redactor.vocabulary.all_keys and name != "name"
            }
    return redacted


_FIELDS: dict[str, Callable[[Message, Any, Redactor], Any]] = {
    "content": _content,
    "output": _output,
    "arguments": lambda item, value, redactor: "{}" if isinstance(value, str) else {},
    "tool_calls": _tool_calls,
    "function_call": lambda item, value, redactor: {**redactor.name(value), "arguments": "{}"},
    "summary": lambda item, value, redactor: [],
    # Encrypted, but contains content.
    "encrypted_content": lambda item, value, redactor: None,
    "logprobs": lambda item, value, redactor: [],
    "audio": lambda item, value, redactor: None,
    # An image in base64.
    "result": lambda item, value, redactor: (
        "" if item.get("type") == "image_generation_call" else mask()
    ),
}
