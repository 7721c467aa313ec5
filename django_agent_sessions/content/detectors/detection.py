r"""The detector protocol, and merging the results of several detectors.

Detectors search texts whose escapes are decoded. Tools return JSON, often nested in JSON. There
``\nalice@example.com`` is a line break before an address, not an address that begins with ``n``.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

# Start and end, and also the kind if a detector finds several kinds.
MatchTuple = tuple[int, int] | tuple[int, int, str]


class Detection(NamedTuple):
    """A match in a text."""

    start: int
    end: int
    kind: str
    """The name of the detector, or the kind it returned; upper case in masks."""


class Detector(Protocol):
    """Finds one kind of sensitive text. ``DETECTORS`` lists additional ones by dotted path.

    A detector may also have a ``label`` for forms: a text or a lazy translation.
    """

    name: str
    """Used in settings, on the command line and in masks: letters, digits and ``_``."""

    def find(self, text: str) -> Iterable[MatchTuple]:
        """Return the start and end of each match, and optionally its kind."""
        ...


def detect(text: str, using: Sequence[Detector]) -> list[Detection]:
    r"""Return all matches in a text, in order.

    Overlapping matches are merged. The merged match has the kind of the longest one; between equal
    lengths the order of ``using`` decides. A match never begins or ends within an escape such as
    ``\n``, so that JSON within a text stays JSON when it is masked.
    """
    plain = Unescaped(text)
    candidates = sorted(
        _candidates(plain.text, using), key=lambda item: (item[0].start, item[0].end)
    )
    return [
        Detection(*plain.original(place.start, place.end), place.kind)
        for place in _merge(candidates)
    ]


def _candidates(text: str, using: Sequence[Detector]) -> Iterator[tuple[Detection, int]]:
    for order, detector in enumerate(using):
        for place in detector.find(text):
            start, end = place[0], place[1]
            if 0 <= start < end <= len(text):
                kind = place[2] if len(place) == 3 else detector.name
                yield Detection(start, end, kind), order


def _merge(candidates: Iterable[tuple[Detection, int]]) -> Iterator[Detection]:
    """Merge overlapping matches; ``candidates`` is sorted by start."""
    current: Detection | None = None
    best = (0, 0)
    for place, order in candidates:
        rank = (place.end - place.start, -order)
        if current is None or place.start >= current.end:
            if current is not None:
                yield current
            current, best = place, rank
            continue
        kind = place.kind if rank > best else current.kind
        current, best = Detection(current.start, max(current.end, place.end), kind), max(best, rank)
    if current is not None:
        yield current


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
