"""Redacted versions of the blocks and the metadata of Strands' messages."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from .redaction import Message, Redactor, mask, select

_TTLS = ("5m", "1h")
_MASKS = {key: key.upper() for key in ("image", "document", "video", "audio")}
_MASKS["reasoningContent"] = "REASONING"


def redacted_block(block: Any, redactor: Redactor) -> Message:
    key = next(iter(block), "") if isinstance(block, dict) else ""
    value = block[key] if isinstance(block, dict) and key else None
    if key == "cachePoint":
        point = value if isinstance(value, dict) else {}
        ttl = {"ttl": point["ttl"]} if point.get("ttl") in _TTLS else {}
        return {key: {"type": "default", **ttl}}
    if key == "toolUse" and isinstance(value, dict):
        return {key: {**redactor.ids(value, "toolUseId"), **redactor.name(value), "input": {}}}
    if key == "toolResult" and isinstance(value, dict):
        return {key: _redacted_result(value, redactor)}
    if key == "text":
        return {"text": redactor.text(value)}
    return {"text": mask(_MASKS.get(key, "") if isinstance(key, str) else "")}


def _redacted_result(result: Message, redactor: Redactor) -> Message:
    content = result.get("content")
    length = max(1, len(content) if isinstance(content, list) else 1)
    redacted: Message = redactor.ids(result, "toolUseId")
    if redactor.vocabulary.is_word(result.get("status")):
        redacted["status"] = result["status"]
    return {**redacted, "content": [{"text": mask()}] * length}


def redacted_metadata(metadata: Message, redactor: Redactor) -> Message:
    keys = redactor.vocabulary.all_keys
    kept = {
        name: _numbers(value, keys) for name, value in select(metadata, "usage", "metrics").items()
    }
    custom = metadata.get("custom")
    if isinstance(custom, dict) and isinstance(custom.get("pinned"), bool):
        # This flag of conversation managers is not content.
        kept["custom"] = {"pinned": custom["pinned"]}
    return kept


def _numbers(value: Any, keys: Collection[str]) -> Message:
    numbers = value if isinstance(value, dict) else {}
    return {
        key: number
        for key, number in numbers.items()
        if key in keys and isinstance(number, int | float)
    }
