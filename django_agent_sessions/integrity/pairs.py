"""Which calls of tools a payload makes, and which it answers. Pure reading, no SDK."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from django_agent_sessions.transcripts import OPENAI, STRANDS


class Pairs(NamedTuple):
    """Ids of calls."""

    calls: tuple[str, ...] = ()
    results: tuple[str, ...] = ()


_NONE = Pairs()

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
"""Items that the application answers. What the API answers itself is call and result in one."""
_OPENAI_RESULTS = frozenset(f"{kind}_output" for kind in _OPENAI_CALLS)


def pairs(dialect: str, payload: Any) -> Pairs:
    """Reads the ids of calls."""
    if not isinstance(payload, dict):
        return _NONE
    if dialect == STRANDS:
        return _strands(payload.get("content"))
    return _openai(payload) if dialect == OPENAI else _NONE


def _strands(content: Any) -> Pairs:
    if not isinstance(content, list):
        return _NONE
    return Pairs(tuple(_blocks(content, "toolUse")), tuple(_blocks(content, "toolResult")))


def _blocks(content: list[Any], key: str) -> Iterator[str]:
    for block in content:
        inner = block.get(key) if isinstance(block, dict) else None
        if isinstance(inner, dict) and isinstance(inner.get("toolUseId"), str):
            yield inner["toolUseId"]


def _openai(item: dict[str, Any]) -> Pairs:
    kind = item.get("type")
    if kind in (None, "message"):
        return _chat(item)
    known = item.get("call_id") or item.get("id")
    if not isinstance(known, str) or not isinstance(kind, str):
        return _NONE
    if kind in _OPENAI_CALLS:
        return Pairs(calls=(known,))
    return Pairs(results=(known,)) if kind in _OPENAI_RESULTS else _NONE


def _chat(message: dict[str, Any]) -> Pairs:
    calls = message.get("tool_calls")
    listed = calls if isinstance(calls, list) else []
    made = [call.get("id") for call in listed if isinstance(call, dict)]
    answered = message.get("tool_call_id")
    return Pairs(
        tuple(known for known in made if isinstance(known, str)),
        (answered,) if isinstance(answered, str) else (),
    )
