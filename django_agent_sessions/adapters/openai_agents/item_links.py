"""The ids by which a call and its result belong together."""

from __future__ import annotations

from typing import Any, NamedTuple

_APPROVAL = "mcp_approval"
_RESULT = "_output"
# The result of a `tool_search_call` is a `tool_search_output`, that of a `program` a
# `program_output`; of all others, such as `function_call`, it is the call's type and `_output`.
_CALLS = {"tool_search_output": "tool_search_call"}

TOOL_CALLS = frozenset(
    {
        "function_call",
        "custom_tool_call",
        "shell_call",
        "local_shell_call",
        "apply_patch_call",
        "computer_call",
        "tool_search_call",
    }
)
"""The types of calls that an application answers."""


class ItemLink(NamedTuple):
    """What a call and its result have in common."""

    kind: str
    call_id: str


def call_link(item: Any) -> ItemLink | None:
    """Return the link of a call that a result, or a person's approval, answers."""
    kind = kind_of(item)
    if kind == f"{_APPROVAL}_request":
        return _link(_APPROVAL, item.get("id"))
    return _link(kind, item.get("call_id")) if kind.endswith("_call") or kind == "program" else None


def result_link(item: Any) -> ItemLink | None:
    """Return the link of a result, or of an approval's answer."""
    kind = kind_of(item)
    if kind == f"{_APPROVAL}_response":
        return _link(_APPROVAL, item.get("approval_request_id"))
    if not kind.endswith(_RESULT):
        return None
    # The API writes a `local_shell_call_output` with the call's id as `id`.
    call_id = item.get("call_id") or item.get("id")
    return _link(_CALLS.get(kind, kind.removesuffix(_RESULT)), call_id)


def kind_of(item: Any) -> str:
    """Return the type of an item; empty if it has none."""
    kind = item.get("type") if isinstance(item, dict) else None
    return kind if isinstance(kind, str) else ""


def is_of_model(item: Any) -> bool:
    """Return whether a model, or a hosted tool, wrote the item, and not the user or a tool."""
    kind = kind_of(item)
    if kind.endswith((_RESULT, "_response")) or kind == "compaction":
        return False
    return isinstance(item, dict) and item.get("role") in (None, "assistant")


def _link(kind: str, call_id: Any) -> ItemLink | None:
    # A hosted call, which has its result itself, has no `call_id`.
    return ItemLink(kind, call_id) if isinstance(call_id, str) and call_id else None
