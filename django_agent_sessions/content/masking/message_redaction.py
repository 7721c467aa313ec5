"""Redaction of whole messages and blocks; ids, roles and types that order them are kept.

The result is a message that every provider accepts: a call keeps its id and name, a result keeps
the id of its call, and a text with a mask replaces an image.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django_agent_sessions.content.blob_refs import PLACEHOLDER_IMAGE, Path, value_at
from django_agent_sessions.content.dialects import ASSISTANT_UI, STRANDS

from .frontend_messages import mask_frontend_message, redact_frontend_message
from .masks import is_mask, mask
from .payloads import is_tool
from .replacement import replace_at, replace_spans
from .replacement_ids import PREFIXED_ID_KEYS, REPLACEMENT_NAME, safe_id, safe_name
from .vocabulary import COUNTS, ENUMS, IDS, KEYS, NUMBERS, is_word, may_be_word

_Message = dict[str, Any]

_TEXT_TYPES = frozenset({"input_text", "output_text", "text", "summary_text", "reasoning_text"})
_OTHER_IDS = ("connector_id", "container_id", "caller_id", "skill_id")
_NAMES = ("name", "server_label", "namespace")
_ENUMS = ENUMS | {
    "allowed_callers",
    "effort",
    "mode",
    "ttl",
    "memory_limit",
    "media_type",
    "syntax",
}
_COUNTS = ("usage", "metrics")
_TTLS = ("5m", "1h")


def redact_message(dialect: str, message: Any) -> Any:
    """Redact all content of a message."""
    if not isinstance(message, dict):
        return mask()
    # A payload is untrusted and may have any structure.
    try:
        return _redact(dialect, message)
    except Exception:
        return _mask_message(dialect, message)


def _redact(dialect: str, message: _Message) -> _Message:
    if dialect == ASSISTANT_UI:
        return redact_frontend_message(message)
    if dialect == STRANDS or _is_strands(message):
        return _strands(message)
    return _openai(message)


def _mask_message(dialect: str, message: _Message) -> _Message:
    """Return a message of the same role whose content is a mask."""
    if dialect == ASSISTANT_UI:
        return mask_frontend_message(message)
    role = message.get("role")
    content: Any = [{"text": mask()}] if dialect == STRANDS else mask()
    return {"role": role if is_word(role) else "user", "content": content}


def redact_block(dialect: str, message: Any, path: Path) -> Any:
    """Redact one block of a message; raise :exc:`LookupError` if there is none at the path."""
    value_at(message, path)
    blanked = redact_message(dialect, message)
    if not path:
        return blanked
    if _path_exists(blanked, path):
        return replace_at(message, path, value_at(blanked, path))
    # A content item of a tool result, which may have any type.
    return replace_at(message, path, {"text": mask()} if isinstance(path[-1], int) else mask())


def redact_spans(message: Any, path: Path, *spans: tuple[int, int]) -> Any:
    """Redact spans of one text of a message; raise :exc:`LookupError` if they do not exist."""
    text = value_at(message, path)
    if isinstance(text, dict) and "text" in text:
        path, text = (*path, "text"), text["text"]
    if not isinstance(text, str) or not all(0 <= one < end <= len(text) for one, end in spans):
        raise LookupError("The payload has no text with these spans at this path.")
    masked = replace_spans(text, spans)
    return message if masked is text else replace_at(message, path, masked)


def _is_strands(message: _Message) -> bool:
    content = message.get("content")
    return (
        "type" not in message
        and isinstance(content, list)
        and all(isinstance(block, dict) and "type" not in block for block in content)
        and bool(content)
    )


# --- Strands ---------------------------------------------------------------------------------


def _strands(message: _Message) -> _Message:
    blanked: _Message = {}
    for key, value in message.items():
        if key == "role" and is_word(value):
            blanked[key] = value
        elif key == "tracking_id" and isinstance(value, str):
            blanked[key] = safe_id(value)
        elif key == "content":
            blocks = value if isinstance(value, list) else [value]
            blanked[key] = [_strands_block(block) for block in blocks]
        elif key == "metadata" and isinstance(value, dict):
            blanked[key] = _strands_metadata(value)
    return blanked


def _strands_metadata(metadata: _Message) -> _Message:
    kept = {name: _numbers(metadata[name]) for name in _COUNTS if name in metadata}
    custom = metadata.get("custom")
    if isinstance(custom, dict) and isinstance(custom.get("pinned"), bool):
        # This flag of conversation managers is not content.
        kept["custom"] = {"pinned": custom["pinned"]}
    return kept


def _numbers(value: Any) -> _Message:
    numbers = value if isinstance(value, dict) else {}
    return {
        key: number
        for key, number in numbers.items()
        if key in KEYS and isinstance(number, int | float)
    }


def _strands_block(block: Any) -> _Message:
    key = next(iter(block), "") if isinstance(block, dict) else ""
    value = block[key] if isinstance(block, dict) and key else None
    if key == "cachePoint":
        point = value if isinstance(value, dict) else {}
        ttl = {"ttl": point["ttl"]} if point.get("ttl") in _TTLS else {}
        return {key: {"type": "default", **ttl}}
    if key == "toolUse" and isinstance(value, dict):
        return {key: {**_ids_and_names(value, "toolUseId", "name"), "input": {}}}
    if key == "toolResult" and isinstance(value, dict):
        content = value.get("content")
        blanked = [{"text": mask()}] * max(1, len(content) if isinstance(content, list) else 1)
        result = _ids_and_names(value, "toolUseId")
        if is_word(value.get("status")):
            result["status"] = value["status"]
        return {key: {**result, "content": blanked}}
    if key == "text":
        return {"text": _text(value)}
    return {"text": mask(_kind(key) if isinstance(key, str) else "")}


def _kind(key: str) -> str:
    known = {
        "image": "IMAGE",
        "document": "DOCUMENT",
        "video": "VIDEO",
        "audio": "AUDIO",
        "reasoningContent": "REASONING",
    }
    return known.get(key, "")


# --- OpenAI ----------------------------------------------------------------------------------


def _openai(item: _Message) -> _Message:
    if item.get("type") in ("compaction", "compaction_summary"):
        # The item consists of one required encrypted text.
        return {"type": "message", "role": "assistant", "content": mask()}
    if item.get("type") == "image_generation_call":
        # The other fields describe the image.
        item = _select(item, "type", "id", "status", "result")
    blanked: _Message = {}
    for key, value in item.items():
        if key == "name" and not is_tool(item):
            # The name of a person.
            continue
        if key == "type" and isinstance(value, str) and may_be_word(value):
            # Includes the types of items newer than the vocabulary.
            blanked[key] = value
        else:
            blanked[_key(key)] = _openai_field(item, key, value)
    return blanked


def _openai_field(item: _Message, key: str, value: Any) -> Any:
    special = _FIELDS.get(key)
    if special is not None and value is not None:
        return special(item, value)
    return _field(key, value)


def _field(key: str, value: Any) -> Any:
    """Keep ids, enumerated values and numbers of the API; mask all else."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return value if key in NUMBERS or key in COUNTS else mask()
    if key in COUNTS:
        return _mask_values(value)
    if isinstance(value, str) and (key in IDS or key in _OTHER_IDS):
        return safe_id(value, prefixed=key in PREFIXED_ID_KEYS)
    if isinstance(value, str) and key in _NAMES:
        return safe_name(value)
    if isinstance(value, str) and key in _ENUMS and is_word(value):
        return value
    if isinstance(value, list) and key in _ENUMS:
        return [_field(key, one) for one in value]
    return _mask_values(value)


def _key(key: Any) -> Any:
    return key if not isinstance(key, str) or key in KEYS else mask()


def _content(item: _Message, value: Any) -> Any:
    if isinstance(value, list):
        return [_openai_block(block, item.get("role")) for block in value]
    return mask()


def _openai_block(block: Any, role: Any) -> _Message:
    kind = block.get("type") if isinstance(block, dict) else None
    if not isinstance(kind, str):
        return {"type": "input_text", "text": mask()}
    if kind == "refusal":
        return {"type": kind, "refusal": mask()}
    if kind in _TEXT_TYPES:
        blanked = {"type": kind, "text": _text(block.get("text"))}
        return {**blanked, "annotations": []} if kind == "output_text" else blanked
    # Images, files and audio are valid only in messages of users and in tool results.
    word = kind.removeprefix("input_").removesuffix("_url").upper()
    known = {"IMAGE": "IMAGE", "FILE": "DOCUMENT", "AUDIO": "AUDIO"}.get(word, "")
    in_chat = kind in ("image_url", "file", "input_audio")
    return {"type": "text" if in_chat else "input_text", "text": mask(known)}


def _output(item: _Message, value: Any) -> Any:
    if isinstance(value, dict) and value.get("type") == "computer_screenshot":
        return {"type": "computer_screenshot", "image_url": PLACEHOLDER_IMAGE}
    if item.get("type") == "shell_call_output":
        return _mask_values(value)
    if isinstance(value, list):
        return [_openai_block(block, None) for block in value]
    return mask()


def _tool_calls(item: _Message, value: Any) -> Any:
    return [_tool_call(call) for call in value] if isinstance(value, list) else []


def _tool_call(call: Any) -> Any:
    if not isinstance(call, dict):
        return mask()
    blanked = _ids_and_names(call, "id")
    if is_word(call.get("type")):
        blanked["type"] = call["type"]
    for key in ("function", "custom"):
        inner = call.get(key)
        if isinstance(inner, dict):
            blanked[key] = _ids_and_names(inner, "name") | {
                name: "{}" if name == "arguments" else mask()
                for name in inner
                if name in KEYS and name != "name"
            }
    return blanked


_FIELDS: dict[str, Callable[[_Message, Any], Any]] = {
    "content": _content,
    "output": _output,
    "arguments": lambda item, value: "{}" if isinstance(value, str) else {},
    "tool_calls": _tool_calls,
    "function_call": lambda item, value: {**_ids_and_names(value, "name"), "arguments": "{}"},
    "summary": lambda item, value: [],
    # Encrypted, but contains content.
    "encrypted_content": lambda item, value: None,
    "logprobs": lambda item, value: [],
    "audio": lambda item, value: None,
    # An image in base64.
    "result": lambda item, value: "" if item.get("type") == "image_generation_call" else mask(),
}


def _mask_values(value: Any) -> Any:
    """Mask all values below; keep the keys that an item of this type requires."""
    if isinstance(value, list):
        return [_mask_values(item) for item in value]
    if isinstance(value, dict):
        if not all(key in KEYS for key in value):
            # A dict of the application: its keys and their number are content.
            value = {key: item for key, item in value.items() if key in KEYS}
        return {
            key: mask() if key == "name" and not is_tool(value) else _field(key, item)
            for key, item in value.items()
        }
    return value if value is None or isinstance(value, bool) else mask()


def _text(value: Any) -> str:
    """Return a mask for a text; a mask of a kind such as IMAGE is kept."""
    return value if isinstance(value, str) and is_mask(value) else mask()


def _ids_and_names(value: Any, *keys: str) -> _Message:
    """Return the ids and names at ``keys``, replaced unless they have the form of one."""
    return {
        key: _name(text) if key == "name" else safe_id(text, prefixed=key in PREFIXED_ID_KEYS)
        for key, text in _select(value, *keys).items()
        if key == "name" or isinstance(text, str)
    }


def _name(value: Any) -> str:
    return safe_name(value) if isinstance(value, str) else REPLACEMENT_NAME


# --- paths -----------------------------------------------------------------------------------


def _select(value: Any, *keys: str) -> _Message:
    return {key: value[key] for key in keys if key in value} if isinstance(value, dict) else {}


def _path_exists(value: Any, path: Path) -> bool:
    try:
        value_at(value, path)
    except LookupError:
        return False
    return True
