"""Find the known messages of a snapshot by comparing bytes.

A snapshot repeats the whole conversation. The repeated part is found with one comparison of memory;
only new messages are parsed.
"""

from __future__ import annotations

import json
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from .json_documents import UnstructuredError, message_at

_MAX_SEARCHES = 16
"""Number of linear searches before an index is built, which takes as long as ten of them."""


class Shared(NamedTuple):
    """Known messages that are identical, byte for byte."""

    first: int
    stop: int
    place: int
    """Offset of the first message in the snapshot."""


class Changed(NamedTuple):
    """A known message whose content differs."""

    place: int
    """Index of the known message."""
    message: Any


class New(NamedTuple):
    """A message that is not known."""

    message: Any


Piece: TypeAlias = Shared | Changed | New


@dataclass
class MessageBytes:
    """Consecutive messages as bytes, separated as in a snapshot.

    ``start`` and ``stop`` limit the messages in ``data``; ``offsets`` are relative to ``start``.
    """

    data: bytes
    start: int
    stop: int
    offsets: array[int]

    @classmethod
    def of(cls, messages: Iterable[bytes]) -> MessageBytes:
        """Build a text from single messages."""
        offsets: array[int] = array("Q")
        place = 0
        parts = list(messages)
        for part in parts:
            offsets.append(place)
            place += len(part) + 2
        data = b", ".join(parts)
        return cls(data, 0, len(data), offsets)

    def __len__(self) -> int:
        return len(self.offsets)

    def end(self, index: int) -> int:
        """Return the end of a message, relative to ``start``."""
        if index + 1 < len(self.offsets):
            return self.offsets[index + 1] - 2
        return self.stop - self.start

    def raw(self, index: int) -> bytes:
        """Return the bytes of a message."""
        return self.data[self.start + self.offsets[index] : self.start + self.end(index)]

    def run(self, index: int, data: bytes, place: int) -> int:
        """Return how many messages from an index on are found at an offset of other bytes."""
        count = len(self) - index
        if count <= 0:
            return 0
        view = memoryview(self.data)
        base = self.offsets[index]
        if data.startswith(view[self.start + base : self.stop], place):
            return count
        low, high = 0, count - 1
        while low < high:
            middle = (low + high + 1) // 2
            first = self.offsets[index + low]
            part = view[self.start + first : self.start + self.end(index + middle - 1)]
            if data.startswith(part, place + first - base):
                low = middle
            else:
                high = middle - 1
        return low

    def at(self, place: int) -> int | None:
        """Return the index of the message that begins at an offset, relative to ``start``."""
        index = bisect_left(self.offsets, place)
        is_start = index < len(self.offsets) and self.offsets[index] == place
        return index if is_start else None


class Aligner:
    """Compares a snapshot with the known messages."""

    def __init__(self, known: MessageBytes) -> None:
        self._known = known
        self._searches = 0
        self._index: dict[bytes, list[int]] = {}

    def align(self, data: bytes, start: int) -> tuple[list[Piece], MessageBytes]:
        """Split a snapshot's messages into shared, changed and new ones.

        Raises ``UnstructuredError`` if they are not written exactly as Strands does.
        """
        pieces: list[Piece] = []
        offsets: array[int] = array("Q")
        known, index, place = self._known, 0, start
        if data.startswith(b"]", place):
            return pieces, MessageBytes(data, start, start, offsets)
        while True:
            run = known.run(index, data, place)
            if run:
                pieces.append(Shared(index, index + run, place))
                base = known.offsets[index]
                shift = place - start - base
                shared = known.offsets[index : index + run]
                offsets.extend(array("Q", [o + shift for o in shared]) if shift else shared)
                place += known.end(index + run - 1) - base
                index += run
            else:
                message, stop = message_at(data, place)
                raw = data[place:stop]
                next_index = self._find(raw, index)
                if next_index is not None:
                    index = next_index
                    continue
                same = self._find_id(message, index)
                if same is None:
                    pieces.append(New(message))
                elif known.raw(same) == raw:
                    pieces.append(Shared(same, same + 1, place))
                    index = same + 1
                else:
                    pieces.append(Changed(same, message))
                    index = same + 1
                offsets.append(place - start)
                place = stop
            if data.startswith(b"]", place):
                return pieces, MessageBytes(data, start, place, offsets)
            if not data.startswith(b", ", place):
                raise UnstructuredError
            place += 2

    def _find(self, raw: bytes, first: int) -> int | None:
        """Return the index of an identical message, not before ``first``."""
        known = self._known
        if first >= len(known):
            return None
        self._searches += 1
        if self._searches > _MAX_SEARCHES:
            if not self._index:
                for index in range(len(known)):
                    self._index.setdefault(known.raw(index), []).append(index)
            indexes = self._index.get(raw, [])
            position = bisect_left(indexes, first)
            return indexes[position] if position < len(indexes) else None
        place = known.start + known.offsets[first]
        while (place := known.data.find(raw, place, known.stop)) >= 0:
            index_at = known.at(place - known.start)
            if index_at is not None:
                return index_at
            place += 1
        return None

    def _find_id(self, message: Any, first: int) -> int | None:
        """Return the index of a message by its tracking id, preferably not before ``first``."""
        tracking_id = message.get("tracking_id")
        known = self._known
        # After the last known message, all messages are new.
        if not isinstance(tracking_id, str) or not tracking_id or first >= len(known):
            return None
        needle = b'"tracking_id": ' + json.dumps(tracking_id, ensure_ascii=False).encode()
        middle = known.start + known.offsets[first]
        for low, high in ((middle, known.stop), (known.start, middle)):
            place = low
            while (place := known.data.find(needle, place, high)) >= 0:
                index = bisect_right(known.offsets, place - known.start) - 1
                found, _ = message_at(known.data, known.start + known.offsets[index])
                if found.get("tracking_id") == tracking_id:
                    return index
                place += 1
        return None
