"""The tool calls and tool results of a payload, by call id, without an SDK."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from django_agent_sessions.content.dialects import OPENAI, STRANDS


class ToolCallIds(NamedTuple):
    """The call ids of a payload's tool calls and tool results."""

    calls: tuple[str, ...] = ()
    results: tuple[str, ...] = ()


_NONE = ToolCallIds()

_OPENAI_CALLS = frozenset(
    {
        "function_call",
        "custom_tool_call",
        "computer_call",
        "local_shell_call",
        "shell_call",
        "apply_patch_call",
    }
)
"""Calls that the application answers. A call that the API answers is one item with its result."""
_OPENAI_RESULTS = frozenset(f"{kind}_output" for kind in _OPENAI_CALLS)


def tool_call_ids(dialect: str, payload: Any) -> ToolCallIds:
    if not isinstance(payload, dict):
        return _NONE
    if dialect == STRANDS:
        return _strands(payload.get("content"))
    return _openai(payload) if dialect == OPENAI else _NONE


def _strands(content: Any) -> ToolCallIds:
    if not isinstance(content, list):
        return _NONE
    return ToolCallIds(tuple(_blocks(content, "toolUse")), tuple(_blocks(content, "toolResult")))


def _blocks(content: list[Any], key: str) -> Iterator[str]:
    for block in content:
        inner = block.get(key) if isinstance(block, dict) else None
        if isinstance(inner, dict) and isinstance(inner.get("toolUseId"), str):
            yield inner["toolUseId"]


def _openai(item: dict[str, Any]) -> ToolCallIds:
    kind = item.get("type")
    if kind in (None, "message"):
        return _chat(item)
    call_id = item.get("call_id") or item.get("id")
    if not isinstance(call_id, str) or not isinstance(kind, str):
        return _NONE
    if kind in _OPENAI_CALLS:
        return ToolCallIds(calls=(call_id,))
    return ToolCallIds(results=(call_id,)) if kind in _OPENAI_RESULTS else _NONE


def _chat(message: dict[str, Any]) -> ToolCallIds:
    calls = message.get("tool_calls")
    call_list = calls if isinstance(calls, list) else []
    ids = [call.get("id") for call in call_list if isinstance(call, dict)]
    answered = message.get("tool_call_id")
    return ToolCallIds(
        tuple(known for known in ids if isinstance(known, str)),
        (answered,) if isinstance(answered, str) else (),
    )
