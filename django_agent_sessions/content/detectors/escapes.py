r"""Decoding of the escapes of JSON and source code, with a mapping to the original positions.

Tools return JSON, often nested in JSON. There ``\nalice@example.com`` is a line break before an
address, not an address that begins with ``n``.
"""

from __future__ import annotations

import re
from bisect import bisect_right

# Several backslashes: the text was escaped more than once.
_ESCAPE = re.compile(r"\\(?<!\\\\)\\*+(?:u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[nrtbf\"'/])")
_LETTERS = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}


class Unescaped:
    """A text with its escapes decoded and a mapping of its positions to the original."""

    def __init__(self, original: str) -> None:
        self.text = original
        self._ends: list[int] = []
        self._shifts: list[int] = []
        if "\\" in original:
            self._decode(original)

    def original(self, start: int, end: int) -> tuple[int, int]:
        """Return the span in the original of a span in ``text``; it never splits an escape."""
        return self._position(start), self._position(end)

    def _decode(self, original: str) -> None:
        pieces: list[str] = []
        done = length = 0
        for escape in _ESCAPE.finditer(original):
            pieces += (original[done : escape.start()], _decode_escape(escape[0]))
            length += escape.start() - done + 1
            done = escape.end()
            self._ends.append(length)
            self._shifts.append(done - length)
        pieces.append(original[done:])
        self.text = "".join(pieces)

    def _position(self, position: int) -> int:
        index = bisect_right(self._ends, position) - 1
        return position + self._shifts[index] if index >= 0 else position


def _decode_escape(escape: str) -> str:
    code = escape.lstrip("\\")
    if len(code) > 1:
        return chr(int(code[1:], 16))
    return _LETTERS.get(code, code)
