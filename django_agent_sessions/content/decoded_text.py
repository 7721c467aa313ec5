"""A text with some of its parts replaced, and the positions of the parts in the original."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable


class DecodedText:
    """The result of replacing the matches of a pattern, with a mapping of positions."""

    __slots__ = ("_ends", "_old_ends", "_old_starts", "_starts", "text")

    def __init__(
        self, original: str, pattern: re.Pattern[str], decode: Callable[[re.Match[str]], str]
    ) -> None:
        self._starts, self._ends = array("q"), array("q")
        self._old_starts, self._old_ends = array("q"), array("q")
        pieces: list[str] = []
        done = length = 0
        for match in pattern.finditer(original):
            start, end = match.span()
            decoded = decode(match)
            pieces += (original[done:start], decoded)
            length += start - done
            self._starts.append(length)
            length += len(decoded)
            self._ends.append(length)
            self._old_starts.append(start)
            self._old_ends.append(end)
            done = end
        pieces.append(original[done:])
        self.text = "".join(pieces) if done else original

    def original(self, start: int, end: int) -> tuple[int, int]:
        """Return the span in the original of a span in ``text``; it never splits a part."""
        return self._original_start(start), self._original_end(end)

    def _original_start(self, position: int) -> int:
        index = bisect_right(self._ends, position) - 1
        following = index + 1
        if following < len(self._starts) and self._starts[following] < position:
            return self._old_starts[following]
        return position if index < 0 else position - self._ends[index] + self._old_ends[index]

    def _original_end(self, position: int) -> int:
        # Without parts that were removed right after the span.
        index = bisect_left(self._starts, position) - 1
        if index < 0:
            return position
        if self._ends[index] >= position:
            return self._old_ends[index]
        return position - self._ends[index] + self._old_ends[index]
