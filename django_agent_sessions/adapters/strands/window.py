"""The messages that an agent holds, as references to those of its conversation.

The conversation keeps all originals, and the agent's window says what was held.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from .held_messages import HeldMessage, copy_of

ALL: dict[str, Any] = {"kept": [], "tail": 0}
"""The window of an agent that holds all messages."""


def window_of(
    held: Sequence[HeldMessage], stored: Collection[HeldMessage], before: dict[str, Any] | None
) -> dict[str, Any] | None:
    """Return the window of what an agent holds; None if it holds all messages.

    Other processes may have appended messages that this agent never held. So the window lists the
    messages before ``tail``, and includes all messages from ``tail`` on.
    """
    first = (before or ALL)["tail"]
    known = {row.position for row in stored}
    dropped = known - {item.position for item in held}
    tail = max([first, *(position + 1 for position in dropped)])
    split = _begin_of_tail(held, tail)
    tail = max([tail, *(item.position + 1 for item in held[:split])])
    while split < len(held) and held[split].position < tail:
        split += 1
    foreign = sorted(set(range(first, tail)) - known)
    kept = _references(held[:split], foreign)
    return {"kept": kept, "tail": tail} if before or kept or tail else None


def _begin_of_tail(held: Sequence[HeldMessage], tail: int) -> int:
    """Return the index from which on the messages are as in the conversation, in its order."""
    index, following = len(held), None
    while index:
        item = held[index - 1]
        in_order = following is None or item.position < following
        if not (in_order and item.position >= tail and item.is_original):
            break
        index, following = index - 1, item.position
    return index


def _references(held: Sequence[HeldMessage], foreign: Sequence[int]) -> list[Any]:
    """Return references to messages, with those of other processes in order of their positions."""
    references: list[Any] = []
    waiting = list(reversed(foreign))
    for item in held:
        while waiting and waiting[-1] < item.position:
            _add_position(references, waiting.pop())
        if item.is_original:
            _add_position(references, item.position)
        else:
            inline: dict[str, Any] = {"message": copy_of(item.message)}
            references.append(inline if item.position < 0 else inline | _at(item.position))
    for position in reversed(waiting):
        _add_position(references, position)
    return references


def _at(position: int) -> dict[str, Any]:
    return {"position": position}


def _add_position(references: list[Any], position: int) -> None:
    last = references[-1] if references else None
    if isinstance(last, list) and last[1] == position:
        last[1] += 1
    else:
        references.append([position, position + 1])
