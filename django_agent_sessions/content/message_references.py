"""How stored references to messages are written, and the context window that consists of them.

A *reference* is ``[first, stop]`` for messages of the conversation, or ``{"message": …}`` for an
*inline message*: one in another form than in the conversation, with the ``"position"`` of its
original, if there is one. A snapshot stores a list of references. An agent stores a *window*, None
if it holds all messages. Other modules ask what an agent's state holds, by :func:`held_by`,
:func:`holding` and :func:`inline_positions`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from django_agent_sessions.values.records import AgentState


def references_in(value: Any) -> list[Any] | None:
    """Return the references of a snapshot or of a window; None if the value has none."""
    items = value.get("kept") if isinstance(value, dict) else value
    return items if isinstance(items, list) else None


def map_references(value: Any, change: Callable[[int, Any], Any]) -> Any:
    """Change the references of a snapshot or window, each with its index.

    Returns the same value if each is the same object, or if there are none.
    """
    items = references_in(value)
    if items is None:
        return value
    changed = [change(index, item) for index, item in enumerate(items)]
    if all(item is before for item, before in zip(changed, items, strict=True)):
        return value
    return {**value, "kept": changed} if isinstance(value, dict) else changed


def move_references(
    value: Any, new_position: Callable[[int], int], exists: Callable[[int], bool]
) -> Any:
    """Return the references of a snapshot or window after messages got other positions.

    Ranges without messages are left out. An inline message whose original does not exist loses its
    position.
    """
    moved: list[Any] = []
    for item in references_in(value) or ():
        if isinstance(item, list):
            first, stop = map(new_position, item)
            if first < stop:
                moved.append([first, stop])
        elif "position" not in item:
            moved.append(item)
        elif exists(item["position"]):
            moved.append({**item, "position": new_position(item["position"])})
        else:
            moved.append({"message": item["message"]})
    if isinstance(value, dict):
        return {"kept": moved, "tail": new_position(value["tail"])}
    return moved


def referenced_ranges(references: Sequence[Any]) -> list[list[int]]:
    """Return the ranges of positions to which references refer, in their order."""
    return [
        item if isinstance(item, list) else [item["position"], item["position"] + 1]
        for item in references
        if isinstance(item, list) or "position" in item
    ]


def held_by(state: AgentState, length: int) -> list[Any]:
    """Return references to the messages that an agent holds of a conversation of this length."""
    window = state.window
    if not isinstance(window, dict):
        return [[0, length]] if length else []
    return [
        item if isinstance(item, dict) else [item[0], min(item[1], length)]
        for item in [*window["kept"], [window["tail"], length]]
        if isinstance(item, dict) or item[0] < length
    ]


def holding(state: AgentState, references: Sequence[Any], length: int) -> AgentState:
    """Return the state of an agent that holds these messages of a conversation of this length."""
    kept, tail = list(references), length
    if kept and isinstance(kept[-1], list) and kept[-1][1] == length:
        first = kept.pop()[0]
        # Every message after the tail is in the window, so that none before it is one of these.
        tail = max([first, *(stop for _, stop in referenced_ranges(kept))])
        kept += [[first, tail]] if first < tail else []
    return replace(state, window={"kept": kept, "tail": tail} if kept or tail else None)


def inline_messages(state: AgentState) -> list[Any]:
    """Return the messages that an agent holds in another form."""
    return [item["message"] for item in references_in(state.window) or () if isinstance(item, dict)]


def inline_positions(state: AgentState) -> set[int]:
    """Return the positions of the messages that an agent holds in another form."""
    inline = [item for item in references_in(state.window) or () if isinstance(item, dict)]
    return {item["position"] for item in inline if "position" in item}


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


def end_of_window(value: Any) -> int | None:
    """Return the position after the last message to which a window refers; None if it is invalid.

    It is 0 for an agent that holds all messages.
    """
    if value is None:
        return 0
    if not isinstance(value, dict) or not is_position(value.get("tail")):
        return None
    end = end_of_references(value.get("kept"))
    return None if end is None else max(value["tail"], end)


def is_window(value: Any) -> bool:
    """Return whether a value is an agent's window: ``{"kept": [reference, …], "tail": position}``.

    None is the window of an agent that holds all messages.
    """
    return end_of_window(value) is not None


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
