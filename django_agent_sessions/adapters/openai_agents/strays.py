"""Results of tools whose calls are not in the conversation any more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_CALL = "_call"
_RESULT = "_call_output"


def without_strays(items: Sequence[Any]) -> list[Any]:
    """Leaves out results that answer no call: a model's provider would refuse the conversation.

    A run that waits for a person has stored its calls, and stores their results when it goes on:
    perhaps after somebody went back in time, or emptied or deleted the session.
    """
    calls: set[tuple[str, str]] = set()
    kept: list[Any] = []
    for item in items:
        kind = item.get("type") if isinstance(item, dict) else None
        if kind == "item_reference":
            # It may stand for any call, which only the provider knows.
            return list(items)
        if isinstance(kind, str) and kind.endswith((_CALL, _RESULT)):
            call = kind.removesuffix("_output"), str(item.get("call_id"))
            if kind.endswith(_CALL):
                calls.add(call)
            elif call not in calls:
                continue
        kept.append(item)
    return kept
