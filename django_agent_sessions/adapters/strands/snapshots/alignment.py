"""Finding out which messages of a snapshot are known, by comparing bytes.

A snapshot repeats the whole conversation. What it repeats is found in one comparison of memory;
only what is new is read.
"""

from __future__ import annotations

import json
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from .documents import UnstructuredError, message_at

_SEARCHES = 16
"""After so many searches through the bytes an index is made, which takes as long as ten of them."""


class Shared(NamedTuple):
    """Known messages, byte for byte."""

    first: int
    stop: int
    place: int
    """Where the first stands in the snapshot."""


class Changed(NamedTuple):
    """A known message in another form."""

    place: int
    """Which of the known ones."""
    message: Any


class New(NamedTuple):
    """A message that is not known."""

    message: Any


Piece: TypeAlias = Shared | Changed | New


@dataclass
class Text:
    """Messages as bytes, one behind the other, as a snapshot has them."""

    data: bytes
    start: int
    stop: int
    offsets: array[int]

    @classmethod
    def of(cls, messages: Iterable[bytes]) -> Text:
        """Makes a text of single messages."""
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
        """Where a message ends, counted from ``start``."""
        if index + 1 < len(self.offsets):
            return self.offsets[index + 1] - 2
        return self.stop - self.start

    def raw(self, index: int) -> bytes:
        """The bytes of a message."""
        return self.data[self.start + self.offsets[index] : self.start + self.end(index)]

    def run(self, index: int, data: bytes, place: int) -> int:
        """Counts the messages from an index on that stand at a place of other bytes."""
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
        """The index of the message that begins at a place, counted from ``start``."""
        index = bisect_left(self.offsets, place)
        there = index < len(self.offsets) and self.offsets[index] == place
        return index if there else None


class Aligner:
    """Compares a snapshot with what is known."""

    def __init__(self, known: Text) -> None:
        self._known = known
        self._searches = 0
        self._index: dict[bytes, list[int]] = {}

    def align(self, data: bytes, start: int) -> tuple[list[Piece], Text]:
        """Takes a snapshot's messages apart."""
        pieces: list[Piece] = []
        offsets: array[int] = array("Q")
        known, index, place = self._known, 0, start
        if data.startswith(b"]", place):
            return pieces, Text(data, start, start, offsets)
        while True:
            run = known.run(index, data, place)
            if run:
                pieces.append(Shared(index, index + run, place))
                base = known.offsets[index]
                shift = place - start - base
                found = known.offsets[index : index + run]
                offsets.extend(array("Q", [o + shift for o in found]) if shift else found)
                place += known.end(index + run - 1) - base
                index += run
            else:
                message, stop = message_at(data, place)
                raw = data[place:stop]
                there = self._find(raw, index)
                if there is not None:
                    index = there
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
                return pieces, Text(data, start, place, offsets)
            if not data.startswith(b", ", place):
                raise UnstructuredError
            place += 2

    def _find(self, raw: bytes, first: int) -> int | None:
        """Finds a message among those from an index on."""
        known = self._known
        if first >= len(known):
            return None
        self._searches += 1
        if self._searches > _SEARCHES:
            if not self._index:
                for index in range(len(known)):
                    self._index.setdefault(known.raw(index), []).append(index)
            there = self._index.get(raw, [])
            at = bisect_left(there, first)
            return there[at] if at < len(there) else None
        place = known.start + known.offsets[first]
        while (place := known.data.find(raw, place, known.stop)) >= 0:
            found = known.at(place - known.start)
            if found is not None:
                return found
            place += 1
        return None

    def _find_id(self, message: Any, first: int) -> int | None:
        """Finds a message by Strands' durable id, first among those from an index on."""
        name = message.get("tracking_id")
        known = self._known
        # Behind the last one that is known, all is new.
        if not isinstance(name, str) or not name or first >= len(known):
            return None
        needle = b'"tracking_id": ' + json.dumps(name, ensure_ascii=False).encode()
        middle = known.start + known.offsets[first]
        for low, high in ((middle, known.stop), (known.start, middle)):
            place = low
            while (place := known.data.find(needle, place, high)) >= 0:
                index = bisect_right(known.offsets, place - known.start) - 1
                found, _ = message_at(known.data, known.start + known.offsets[index])
                if found.get("tracking_id") == name:
                    return index
                place += 1
        return None
