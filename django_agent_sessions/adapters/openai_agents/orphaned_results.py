"""Remove tool results whose calls are no longer in the conversation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_CALL = "_call"
_RESULT = "_call_output"


def without_orphaned_results(items: Sequence[Any]) -> list[Any]:
    """Remove orphaned results, with which a model's provider would reject the conversation.

    A run that waits for a user's approval has stored its calls, and stores their results when it is
    resumed: perhaps after a rewind, or after the session was cleared or deleted.
    """
    calls: set[tuple[str, str]] = set()
    kept: list[Any] = []
    for item in items:
        kind = item.get("type") if isinstance(item, dict) else None
        if kind == "item_reference":
            # It may refer to any call, which only the provider knows.
            return list(items)
        if isinstance(kind, str) and kind.endswith((_CALL, _RESULT)):
            call = kind.removesuffix("_output"), str(item.get("call_id"))
            if kind.endswith(_CALL):
                calls.add(call)
            elif call not in calls:
                continue
        kept.append(item)
    return kept
