"""The messages that an agent holds, and their rows.

Strands' conversation and context managers, and applications, change the list of an agent's messages
in place and without an event: they drop messages, shorten them, merge them, and insert summaries.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, cast
from uuid import UUID

from strands.types.content import Message


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
