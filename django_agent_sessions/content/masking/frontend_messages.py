"""Redaction of whole messages of assistant-ui, so that its client can still open the thread.

A browser wrote them and may have written anything under any key, so that each value is checked.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from typing import Any

from django_agent_sessions.content.blob_refs import PLACEHOLDER_IMAGE

from .masks import is_mask, mask
from .replacement_ids import PREFIXED_ID_KEYS, pseudonymous_id, safe_id, safe_name
from .vocabulary import TOOL_STATES, is_word, may_be_word

_Message = dict[str, Any]

_DIGEST = re.compile(r"[0-9a-f]{64}")
_FLAGS = ("providerExecuted", "preliminary", "isError")
_STATES = TOOL_STATES | {"streaming", "done"}
_SOURCE_TYPES = ("url", "document")
_TOOL_TYPES = ("dynamic-tool", "tool-call")
_TOOL = "tool-"
_DEFAULT_FORMAT = "ai-sdk/v6"


def redact_frontend_message(message: _Message) -> _Message:
    """Redact all content of a message."""
    content = message.get("content")
    blanked = _links(message)
    blanked["content"] = _content(content) if isinstance(content, dict) else {}
    return blanked


def mask_frontend_message(message: _Message) -> _Message:
    """Replace a message with a mask at the same position in the thread."""
    content = message.get("content")
    value = content if isinstance(content, dict) else {}
    role = value.get("role")
    text = [{"type": "text", "text": mask()}]
    return {
        **_links(message),
        "content": {
            **_ids(value, "id"),
            "role": role if is_word(role) else "assistant",
            "content" if message.get("format") == "aui/v0" else "parts": text,
        },
    }


def _links(message: _Message) -> _Message:
    # In this order: queries match the beginning of the serialized message.
    links = _ids(message, "id")
    digest = message.get("content_digest")
    if isinstance(digest, str) and _DIGEST.fullmatch(digest):
        links["content_digest"] = digest
    if "parent_id" in message:
        links["parent_id"] = _ids(message, "parent_id").get("parent_id")
    if "format" in message:
        name = message["format"]
        links["format"] = name if isinstance(name, str) and may_be_word(name) else _DEFAULT_FORMAT
    return links


def _content(content: _Message) -> _Message:
    blanked = _ids(content, "id")
    if is_word(content.get("role")):
        blanked["role"] = content["role"]
    for key in ("parts", "content"):
        value = content.get(key)
        if isinstance(value, list):
            blanked[key] = [_part(part) for part in value]
        elif value is not None:
            blanked[key] = mask()
    return blanked


def _part(part: Any) -> _Message:
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(kind, str):
        return {"type": "text", "text": mask()}
    is_call = isinstance(part.get("toolCallId"), str)
    if is_call and (kind in _TOOL_TYPES or kind.startswith(_TOOL)):
        return _tool(part, kind)
    # Names and values of an application's own data parts are content.
    redact_part = _PARTS.get(kind)
    return (
        {"type": "text", "text": mask()}
        if redact_part is None
        else {"type": kind, **redact_part(part)}
    )


def _tool(part: _Message, kind: str) -> _Message:
    if kind not in _TOOL_TYPES:
        kind = _TOOL + safe_name(kind.removeprefix(_TOOL))
    blanked: _Message = {"type": kind, **_ids(part, "toolCallId")}
    if isinstance(name := part.get("toolName"), str):
        blanked["toolName"] = safe_name(name)
    blanked |= _flags(part, *_FLAGS) | _state(part)
    for key, replacement in (
        ("input", {}),
        ("args", {}),
        ("argsText", "{}"),
        ("output", mask()),
        ("result", mask()),
        ("errorText", mask()),
    ):
        if key in part:
            blanked[key] = replacement
    approval = part.get("approval")
    if isinstance(approval, dict):
        blanked["approval"] = _ids(approval, "id") | _flags(approval, "approved")
    return blanked


def _text_or_reasoning(part: _Message) -> _Message:
    text = part.get("text")
    return {
        "text": text if isinstance(text, str) and is_mask(text) else mask(),
        **_state(part),
    }


def _file(part: _Message) -> _Message:
    media_key = "mimeType" if "mimeType" in part else "mediaType"
    data_key = "data" if "data" in part else "url"
    if str(part.get(media_key)).lower().startswith("image/"):
        return {media_key: "image/png", data_key: PLACEHOLDER_IMAGE}
    text = base64.b64encode(mask("DOCUMENT").encode()).decode()
    return {media_key: "text/plain", data_key: f"data:text/plain;base64,{text}"}


def _source(part: _Message) -> _Message:
    blanked = _ids(part, "id")
    if isinstance(name := part.get("sourceId"), str):
        # Often the URL itself.
        blanked["sourceId"] = pseudonymous_id(name)
    if part.get("sourceType") in _SOURCE_TYPES:
        blanked["sourceType"] = part["sourceType"]
    if "mediaType" in part:
        blanked["mediaType"] = "text/plain"
    return {**blanked, **{key: mask() for key in ("url", "title") if key in part}}


def _state(part: _Message) -> _Message:
    state = part.get("state")
    return {"state": state} if isinstance(state, str) and state in _STATES else {}


def _flags(value: _Message, *keys: str) -> _Message:
    return {key: value[key] for key in keys if isinstance(value.get(key), bool)}


def _ids(value: _Message, *keys: str) -> _Message:
    return {
        key: safe_id(value[key], prefixed=key in PREFIXED_ID_KEYS, chosen=True)
        for key in keys
        if isinstance(value.get(key), str)
    }


_PARTS: dict[str, Callable[[_Message], _Message]] = {
    "text": _text_or_reasoning,
    "reasoning": _text_or_reasoning,
    "file": _file,
    "image": lambda part: {"image": PLACEHOLDER_IMAGE},
    "source": _source,
    "source-url": _source,
    "source-document": _source,
    "step-start": lambda part: {},
}
