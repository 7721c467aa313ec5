"""The messages of a snapshot: their bytes, and where the conversation has them.

A snapshot repeats the whole conversation. Known messages are found by their bytes or, if an agent
changed them, by their ``tracking_id``; only other messages are parsed.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

from .json_documents import UnstructuredError, message_at

Reference: TypeAlias = int | dict[str, Any]
"""A position in the conversation, or ``{"message": …}`` for a message that only a snapshot has,
with its ``"position"`` if it is a variant of a message of the conversation."""


class SnapshotMessage(NamedTuple):
    """A message of a snapshot that is being saved, or that was read or written before."""

    raw: bytes
    reference: Reference | None
    """Where the message is; None if it is new."""
    message: Any = None
    """The content; None if the bytes are those that were known before."""


def match_messages(
    data: bytes, start: int, known: Sequence[SnapshotMessage]
) -> tuple[list[SnapshotMessage], int]:
    """Find the known messages in a snapshot; return its messages and the offset of their end.

    Raises ``UnstructuredError`` if they are not written exactly as Strands does.
    """
    found: list[SnapshotMessage] = []
    matcher, place, index = _Matcher(known), start, 0
    while not data.startswith(b"]", place):
        if found:
            if not data.startswith(b", ", place):
                raise UnstructuredError
            place += 2
        # An object in JSON ends where its bytes end, so that no prefix of a message matches.
        if index < len(known) and data.startswith(known[index].raw, place):
            found.append(known[index])
            place += len(known[index].raw)
            index += 1
            continue
        message, stop = message_at(data, place)
        raw, place = data[place:stop], stop
        position = matcher.find(raw, message, index)
        if position is None:
            found.append(SnapshotMessage(raw, None, message))
        else:
            same = known[position]
            changed = None if same.raw == raw else message
            found.append(SnapshotMessage(raw, same.reference, changed))
            index = position + 1
    return found, place


class _Matcher:
    """Finds known messages by their bytes and by their tracking ids."""

    def __init__(self, known: Sequence[SnapshotMessage]) -> None:
        self._known = known

    def find(self, raw: bytes, message: Any, first: int) -> int | None:
        """Return the index of a message, preferably not before ``first``."""
        if first >= len(self._known):
            # After the last known message, all messages are new.
            return None
        index = _next_index(self._by_bytes.get(raw, ()), first)
        if index is not None:
            return index
        own_id = message.get("tracking_id")
        if not isinstance(own_id, str) or not own_id:
            return None
        if tracking_id(self._known[first]) == own_id:
            return first
        indexes = self._by_id.get(own_id, ())
        index = _next_index(indexes, first)
        return _next_index(indexes, 0) if index is None else index

    @cached_property
    def _by_bytes(self) -> dict[Hashable, list[int]]:
        return self._indexes(lambda known: known.raw)

    @cached_property
    def _by_id(self) -> dict[Hashable, list[int]]:
        return self._indexes(tracking_id)

    def _indexes(self, key: Callable[[SnapshotMessage], Hashable]) -> dict[Hashable, list[int]]:
        indexes: dict[Hashable, list[int]] = defaultdict(list)
        for index, known in enumerate(self._known):
            indexes[key(known)].append(index)
        return dict(indexes)


def _next_index(indexes: Sequence[int], first: int) -> int | None:
    at = bisect_left(indexes, first)
    return indexes[at] if at < len(indexes) else None


def tracking_id(known: SnapshotMessage) -> str | None:
    """Return the id that Strands gave a message."""
    try:
        message = json.loads(known.raw)
    except (ValueError, RecursionError):
        return None
    found = message.get("tracking_id") if isinstance(message, dict) else None
    return found if isinstance(found, str) else None


def to_ranges(references: Iterable[Reference]) -> list[Any]:
    """Convert references to the form that is stored, in which positions are ranges."""
    ranges: list[Any] = []
    for reference in references:
        if not isinstance(reference, int):
            ranges.append(reference)
        elif ranges and isinstance(ranges[-1], list) and ranges[-1][1] == reference:
            ranges[-1][1] += 1
        else:
            ranges.append([reference, reference + 1])
    return ranges


def from_ranges(ranges: Iterable[Any]) -> Iterator[Reference]:
    """Convert stored references to one reference per message."""
    for item in ranges:
        if isinstance(item, list):
            yield from range(*item)
        else:
            yield item


def position_of(reference: Reference | None) -> int | None:
    """Return the position of a message in the conversation; None if it is not part of it."""
    if reference is None or isinstance(reference, int):
        return reference
    position: int | None = reference.get("position")
    return position
