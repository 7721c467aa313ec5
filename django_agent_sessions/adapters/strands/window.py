"""The messages that an agent holds, as references to those of its conversation.

Strands' conversation and context managers, and applications, change the list of an agent's messages
in place and without an event: they drop messages, shorten them, merge them, and insert summaries.
The conversation keeps all originals, and the agent's window says what was held.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, cast
from uuid import UUID

from strands.types.content import Message

ALL: dict[str, Any] = {"kept": [], "tail": 0}
"""The window of an agent that holds all messages."""


class HeldMessage(NamedTuple):
    """A message that an agent holds or held, and its row, if it has one.

    ``position`` is that of the row; -1 if there is none. ``message`` is the dict that the agent
    holds, and may have changed since. ``original`` is a copy of it as it is in the row; None if the
    agent was restored with another form of the message. ``key`` is the primary key of the row, if
    this process wrote it.
    """

    position: int
    message: Message
    original: Message | None = None
    key: UUID | None = None

    @property
    def is_original(self) -> bool:
        """Whether the message is as it is in its row."""
        return self.message == self.original

    @property
    def is_pinned(self) -> bool:
        """Whether the row marks the message as pinned."""
        return is_pinned(self.message if self.original is None else self.original)


def match_rows(
    messages: Iterable[Message], stored: Iterable[HeldMessage]
) -> Iterator[tuple[Message, HeldMessage | None]]:
    """Find the rows of an agent's messages, by their tracking ids.

    A message that is stored more often than held, as after a retried prompt, is the later one.
    """
    rows: dict[str | None, list[HeldMessage]] = defaultdict(list)
    for row in sorted(stored, key=lambda row: row.position):
        rows[row.message.get("tracking_id")].append(row)
    messages = list(messages)
    counts = Counter(message.get("tracking_id") for message in messages)
    for message in messages:
        tracking_id = message.get("tracking_id")
        found = rows[tracking_id][-counts[tracking_id] :] if tracking_id else []
        counts[tracking_id] -= 1
        yield message, found[0] if found else None


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
            variant: dict[str, Any] = {"message": copy_of(item.message)}
            references.append(variant if item.position < 0 else variant | _at(item.position))
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


def variant_positions(window: Any) -> set[int]:
    """Return the positions of the messages that a window has in another form."""
    items = (window or ALL)["kept"]
    return {item["position"] for item in items if isinstance(item, dict) and "position" in item}


def copy_of(message: Message) -> Message:
    """Copy the dicts and lists of a message, which a program may change in place."""
    return cast(Message, _copy_dict(cast("dict[str, Any]", message)))


def _copy_dict(value: dict[str, Any]) -> dict[str, Any]:
    # Most values are texts, and most lists are of dicts, whose copies need no further call.
    copied = {**value}
    for key, item in value.items():
        if type(item) is list:
            copied[key] = [_copy_dict(i) if type(i) is dict else _copy(i) for i in item]
        elif type(item) is not str:
            copied[key] = _copy(item)
    return copied


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return _copy_dict(value)
    return [*map(_copy, value)] if isinstance(value, list) else value


def is_pinned(message: Message) -> bool:
    """Return whether Strands' conversation managers keep a message."""
    custom = (message.get("metadata") or {}).get("custom") or {}
    return custom.get("pinned") is True
