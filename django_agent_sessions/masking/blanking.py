"""Whole messages and blocks without what they said: what is left is what pairs and orders them.

The result is a message that every provider takes: a call keeps its id and name, a result the id it
answers, an image becomes a text that says that there was one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django_agent_sessions.references import PIXEL, Path, value_at
from django_agent_sessions.transcripts.formats import ASSISTANT_UI, STRANDS

from .assistant_ui import blank_stored, mask_stored
from .ids import NAMELESS, PREFIXED, kept_id, kept_name
from .masks import is_mask, mask
from .replacing import replace_at, replace_spans
from .trees import is_tool
from .vocabulary import COUNTS, ENUMS, IDS, KEYS, NUMBERS, is_word, may_be_word

_Message = dict[str, Any]

_TEXT_TYPES = frozenset({"input_text", "output_text", "text", "summary_text", "reasoning_text"})
_GIVEN_IDS = ("connector_id", "container_id", "caller_id", "skill_id")
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


def blank(dialect: str, message: Any) -> Any:
    """Takes away all that a message says."""
    if not isinstance(message, dict):
        return mask()
    # A payload is foreign data, and may be anything.
    try:
        return _blanked(dialect, message)
    except Exception:
        return _masked(dialect, message)


def _blanked(dialect: str, message: _Message) -> _Message:
    if dialect == ASSISTANT_UI:
        return blank_stored(message)
    if dialect == STRANDS or _is_strands(message):
        return _strands(message)
    return _openai(message)


def _masked(dialect: str, message: _Message) -> _Message:
    """Makes a message of the same speaker that is a mask."""
    if dialect == ASSISTANT_UI:
        return mask_stored(message)
    role = message.get("role")
    said: Any = [{"text": mask()}] if dialect == STRANDS else mask()
    return {"role": role if is_word(role) else "user", "content": said}


def blank_block(dialect: str, message: Any, path: Path) -> Any:
    """Takes away what one block of a message says."""
    value_at(message, path)
    blanked = blank(dialect, message)
    if not path:
        return blanked
    if _reaches(blanked, path):
        return replace_at(message, path, value_at(blanked, path))
    # Inside of a result: of its contents, each can stand alone.
    return replace_at(message, path, {"text": mask()} if isinstance(path[-1], int) else mask())


def blank_spans(message: Any, path: Path, *spans: tuple[int, int]) -> Any:
    """Takes away parts of one text of a message."""
    text = value_at(message, path)
    if isinstance(text, dict) and "text" in text:
        path, text = (*path, "text"), text["text"]
    if not isinstance(text, str) or not all(0 <= one < end <= len(text) for one, end in spans):
        raise LookupError("there is no such part of a text at this path")
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
            blanked[key] = kept_id(value)
        elif key == "content":
            blocks = value if isinstance(value, list) else [value]
            blanked[key] = [_strands_block(block) for block in blocks]
        elif key == "metadata" and isinstance(value, dict):
            blanked[key] = _strands_metadata(value)
    return blanked


def _strands_metadata(metadata: _Message) -> _Message:
    kept = {name: _figures(metadata[name]) for name in _COUNTS if name in metadata}
    custom = metadata.get("custom")
    if isinstance(custom, dict) and isinstance(custom.get("pinned"), bool):
        # Whether a conversation manager may let it go is no content.
        kept["custom"] = {"pinned": custom["pinned"]}
    return kept


def _figures(value: Any) -> _Message:
    figures = value if isinstance(value, dict) else {}
    return {
        key: figure
        for key, figure in figures.items()
        if key in KEYS and isinstance(figure, int | float)
    }


def _strands_block(block: Any) -> _Message:
    key = next(iter(block), "") if isinstance(block, dict) else ""
    value = block[key] if isinstance(block, dict) and key else None
    if key == "cachePoint":
        point = value if isinstance(value, dict) else {}
        lasts = {"ttl": point["ttl"]} if point.get("ttl") in _TTLS else {}
        return {key: {"type": "default", **lasts}}
    if key == "toolUse" and isinstance(value, dict):
        return {key: {**_called(value, "toolUseId", "name"), "input": {}}}
    if key == "toolResult" and isinstance(value, dict):
        content = value.get("content")
        blanked = [{"text": mask()}] * max(1, len(content) if isinstance(content, list) else 1)
        paired = _called(value, "toolUseId")
        if is_word(value.get("status")):
            paired["status"] = value["status"]
        return {key: {**paired, "content": blanked}}
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
        # The whole of it is one encrypted text, without which it is no such item.
        return {"type": "message", "role": "assistant", "content": mask()}
    if item.get("type") == "image_generation_call":
        # All else tells how the picture was made, in words of its own.
        item = _only(item, "type", "id", "status", "result")
    blanked: _Message = {}
    for key, value in item.items():
        if key == "name" and not is_tool(item):
            # A person's.
            continue
        if key == "type" and isinstance(value, str) and may_be_word(value):
            # Also that of an item that is newer than our list.
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
    """Keeps what pairs and orders items, and words and figures of the API."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return value if key in NUMBERS or key in COUNTS else mask()
    if key in COUNTS:
        return _emptied(value)
    if isinstance(value, str) and (key in IDS or key in _GIVEN_IDS):
        return kept_id(value, prefixed=key in PREFIXED)
    if isinstance(value, str) and key in _NAMES:
        return kept_name(value)
    if isinstance(value, str) and key in _ENUMS and is_word(value):
        return value
    if isinstance(value, list) and key in _ENUMS:
        return [_field(key, one) for one in value]
    return _emptied(value)


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
    # A picture, file or recording may stand only where people speak or a tool answers.
    word = kind.removeprefix("input_").removesuffix("_url").upper()
    known = {"IMAGE": "IMAGE", "FILE": "DOCUMENT", "AUDIO": "AUDIO"}.get(word, "")
    in_chat = kind in ("image_url", "file", "input_audio")
    return {"type": "text" if in_chat else "input_text", "text": mask(known)}


def _output(item: _Message, value: Any) -> Any:
    if isinstance(value, dict) and value.get("type") == "computer_screenshot":
        return {"type": "computer_screenshot", "image_url": PIXEL}
    if item.get("type") == "shell_call_output":
        return _emptied(value)
    if isinstance(value, list):
        return [_openai_block(block, None) for block in value]
    return mask()


def _tool_calls(item: _Message, value: Any) -> Any:
    return [_tool_call(call) for call in value] if isinstance(value, list) else []


def _tool_call(call: Any) -> Any:
    if not isinstance(call, dict):
        return mask()
    blanked = _called(call, "id")
    if is_word(call.get("type")):
        blanked["type"] = call["type"]
    for key in ("function", "custom"):
        inner = call.get(key)
        if isinstance(inner, dict):
            blanked[key] = _called(inner, "name") | {
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
    "function_call": lambda item, value: {**_called(value, "name"), "arguments": "{}"},
    "summary": lambda item, value: [],
    # Opaque, but what was said is in it.
    "encrypted_content": lambda item, value: None,
    "logprobs": lambda item, value: [],
    "audio": lambda item, value: None,
    # A picture in base64.
    "result": lambda item, value: "" if item.get("type") == "image_generation_call" else mask(),
}


def _emptied(value: Any) -> Any:
    """Masks all below; what an item of this type has to have stays there."""
    if isinstance(value, list):
        return [_emptied(item) for item in value]
    if isinstance(value, dict):
        if not all(key in KEYS for key in value):
            # Somebody's own: what its keys are called is content, and how many there are.
            value = {key: item for key, item in value.items() if key in KEYS}
        return {
            key: mask() if key == "name" and not is_tool(value) else _field(key, item)
            for key, item in value.items()
        }
    return value if value is None or isinstance(value, bool) else mask()


def _text(value: Any) -> str:
    """Masks a text; of a picture that became a mask before, the mask tells so."""
    return value if isinstance(value, str) and is_mask(value) else mask()


def _called(value: Any, *keys: str) -> _Message:
    """Keeps ids and names, as far as they can be nothing else."""
    return {
        key: _name(text) if key == "name" else kept_id(text, prefixed=key in PREFIXED)
        for key, text in _only(value, *keys).items()
        if key == "name" or isinstance(text, str)
    }


def _name(value: Any) -> str:
    return kept_name(value) if isinstance(value, str) else NAMELESS


# --- paths -----------------------------------------------------------------------------------


def _only(value: Any, *keys: str) -> _Message:
    return {key: value[key] for key in keys if key in value} if isinstance(value, dict) else {}


def _reaches(value: Any, path: Path) -> bool:
    try:
        value_at(value, path)
    except LookupError:
        return False
    return True
