"""How stored references to messages are written, and the context window that consists of them.

A *reference* is ``[first, stop]`` for messages of the conversation, or ``{"message": …}`` for one
in another form, with the ``"position"`` of its original, if there is one.
"""

from __future__ import annotations

from typing import Any


def end_of_references(value: Any) -> int | None:
    """Return the position after the last referenced message; None if a reference is invalid."""
    if not isinstance(value, list):
        return None
    stop = 0
    for item in value:
        span = item
        if isinstance(item, dict):
            if "message" not in item:
                return None
            if "position" not in item:
                continue
            span = [item["position"], None]
            if is_position(item["position"]):
                span = [item["position"], item["position"] + 1]
        if not _is_range(span):
            return None
        stop = max(stop, span[1])
    return stop


def is_window(value: Any) -> bool:
    """Return whether a value is an agent's window: ``{"kept": [reference, …], "tail": position}``.

    None is the window of an agent that holds all messages.
    """
    return value is None or (
        isinstance(value, dict)
        and is_position(value.get("tail"))
        and end_of_references(value.get("kept")) is not None
    )


def is_conversation_manager_state(value: Any) -> bool:
    """Return whether a value can be the state of a conversation manager, or of none (empty)."""
    return not value or (
        isinstance(value, dict) and is_position(value.get("removed_message_count", 0))
    )


def is_position(value: Any) -> bool:
    """Return whether a value is a position, or a number of messages."""
    return type(value) is int and value >= 0


def _is_range(span: Any) -> bool:
    return (
        isinstance(span, list)
        and len(span) == 2
        and all(map(is_position, span))
        and span[0] < span[1]
    )
