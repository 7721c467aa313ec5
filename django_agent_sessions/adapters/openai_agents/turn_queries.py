"""Describe items by turn: types, tools, previews. Pure functions.

The types and names are those of the SDK's ``AdvancedSQLiteSession`` (openai-agents 0.24).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from agents.usage import Usage

from django_agent_sessions.content import exact_json
from django_agent_sessions.exceptions import PayloadError
from django_agent_sessions.models.fields import CorruptPayload
from django_agent_sessions.values.records import TurnCost, TurnItem

_MCP_TYPES = frozenset({"mcp_call", "mcp_approval_request"})
_HOSTED_TOOL_TYPES = frozenset(
    {
        "computer_call",
        "file_search_call",
        "web_search_call",
        "code_interpreter_call",
        "shell_call",
        "apply_patch_call",
    }
)
_TOOL_SEARCH_TYPES = frozenset({"tool_search_call", "tool_search_output"})
_CALL_TYPES = frozenset(
    {
        "tool_call",
        "function_call",
        "tool_search_call",
        "custom_tool_call",
        *_MCP_TYPES,
        *_HOSTED_TOOL_TYPES,
    }
)
_PREVIEW_LENGTH = 100


def item_type(item: Any) -> str:
    """Return the role of a message, or the type of another item."""
    if isinstance(item, dict):
        role = item.get("role")
        if role in ("user", "assistant"):
            return str(role)
        if item.get("type"):
            return str(item["type"])
    return "other"


def tool_name(item: Any) -> str | None:
    """Return the tool that a call or an output belongs to."""
    if not isinstance(item, dict):
        return None
    type_ = item.get("type")
    if not isinstance(type_, str):
        type_ = ""
    if type_ in _MCP_TYPES and "server_label" in item:
        return ".".join(str(each) for each in (item["server_label"], item.get("name")) if each) or (
            None
        )
    if type_ in _TOOL_SEARCH_TYPES:
        return "tool_search"
    if type_ in _HOSTED_TOOL_TYPES:
        return type_
    return _qualified_name(item.get("name"), item.get("namespace"))


def _qualified_name(name: Any, namespace: Any) -> str | None:
    if name is None:
        return None
    name, namespace = str(name), "" if namespace is None else str(namespace)
    # The API repeats the name as the namespace if there is none.
    return name if not name or namespace in ("", name) else f"{namespace}.{name}"


def group_by_turn(items: Iterable[TurnItem]) -> dict[int, list[dict[str, str | None]]]:
    """Group the items of a conversation by turn."""
    items_by_turn: dict[int, list[dict[str, str | None]]] = {}
    for item in items:
        items_by_turn.setdefault(item.turn, []).append(
            {"type": _kind_of(item), "tool_name": _tool_name_of(item)}
        )
    return items_by_turn


def tool_usage(items: Iterable[TurnItem]) -> list[tuple[str, int, int]]:
    """Count the calls of each tool: name, number and turn, sorted by turn and name.

    Without its call, the output of a tool search is counted.
    """
    calls: Counter[tuple[int, str | None]] = Counter()
    turns_with_calls: set[int] = set()
    outputs: Counter[int] = Counter()
    for item in items:
        kind_of_item = _kind_of(item)
        if kind_of_item in _CALL_TYPES:
            calls[item.turn, _tool_name_of(item)] += 1
        if kind_of_item == "tool_search_call":
            turns_with_calls.add(item.turn)
        elif kind_of_item == "tool_search_output":
            outputs[item.turn] += 1
    for turn, times in outputs.items():
        if turn not in turns_with_calls:
            calls[turn, "tool_search"] += times
    ordered = sorted(calls.items(), key=lambda call: (call[0][0], call[0][1] or ""))
    return [(name, times, turn) for (turn, name), times in ordered]  # type: ignore[misc] # the SDK's type; a damaged call has no name


def describe_turns(turns: Iterable[TurnItem], *, shortened: bool) -> list[dict[str, Any]]:
    """Describe turns for the user's choice."""
    return [
        {
            "turn": turn.turn,
            "content": _preview(turn.payload.get("content", ""), shortened),
            "full_content": turn.payload.get("content", ""),
            "timestamp": timestamp(turn.created_at),
            "can_branch": True,
        }
        for turn in turns
        if isinstance(turn.payload, dict)
    ]


def contains_text(term: str, item: Any) -> bool:
    """Return whether an item's text contains a term; the case of ASCII letters is ignored."""
    content = item.get("content", "") if isinstance(item, dict) else None
    if isinstance(content, str):
        texts = [content]
    elif isinstance(content, list) and all(isinstance(part, dict) for part in content):
        texts = [text for part in content if isinstance(text := part.get("text", ""), str)]
    else:
        return False
    pattern = re.compile(re.escape(term), re.IGNORECASE | re.ASCII)
    return any(pattern.search(text) for text in texts)


def timestamp(moment: datetime) -> str:
    """Format a time as SQLite does: UTC, to the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def _preview(content: Any, shortened: bool) -> str:
    text = (
        content
        if isinstance(content, str)
        else json.dumps(content, ensure_ascii=False, default=str)
    )
    return f"{text[:_PREVIEW_LENGTH]}..." if shortened and len(text) > _PREVIEW_LENGTH else text


def _kind_of(item: TurnItem) -> str:
    if isinstance(item.payload, CorruptPayload):
        return item.role if item.role in ("user", "assistant") else "other"
    return item_type(item.payload)


def _tool_name_of(item: TurnItem) -> str | None:
    return tool_name(item.payload)


def turn_cost(usage: Usage) -> TurnCost:
    """Convert the usage of a run to the cost of a turn."""
    return TurnCost(
        requests=usage.requests or 0,
        input_tokens=usage.input_tokens or 0,
        output_tokens=usage.output_tokens or 0,
        total_tokens=usage.total_tokens or 0,
        input_tokens_details=_details(usage.input_tokens_details),
        output_tokens_details=_details(usage.output_tokens_details),
    )


def cost_as_dict(cost: TurnCost) -> dict[str, Any]:
    """Return the cost of a turn in the SDK's form."""
    return {
        "requests": cost.requests,
        "input_tokens": cost.input_tokens,
        "output_tokens": cost.output_tokens,
        "total_tokens": cost.total_tokens,
        "input_tokens_details": cost.input_tokens_details,
        "output_tokens_details": cost.output_tokens_details,
    }


def _details(details: Any) -> Any:
    result = dict(vars(details)) if details else None
    try:
        exact_json.dumps(result)
    except PayloadError:
        # Store the totals without the details.
        return None
    return result
