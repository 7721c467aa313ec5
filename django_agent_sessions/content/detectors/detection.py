r"""The detector protocol, and merging the results of several detectors.

Detectors search texts whose escapes are decoded. Tools return JSON, often nested in JSON. There
``\nalice@example.com`` is a line break before an address, not an address that begins with ``n``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from django_agent_sessions.content.decoded_text import DecodedText
from django_agent_sessions.content.work_budget import check_work

_CHECKED = 4096
"""Before each detector that searches a text of more characters, the budget is checked."""

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
    """Name in settings, on the command line and in masks, of letters, digits and ``_``."""

    def find(self, text: str) -> Iterable[MatchTuple]:
        """Return the start and end of each match, and optionally its kind."""
        ...


def detect(text: str, using: Sequence[Detector]) -> list[Detection]:
    r"""Return all matches in a text, in order.

    Overlapping matches are merged. The merged match has the kind of the longest one; between equal
    lengths the order of ``using`` decides. A match never begins or ends within an escape such as
    ``\n``, so that JSON within a text stays JSON when it is masked.
    """
    check_work()
    plain = DecodedText(text, _ESCAPE, _decode_escape)
    candidates = sorted(
        _candidates(plain.text, using), key=lambda item: (item[0].start, item[0].end)
    )
    return [
        Detection(*plain.original(place.start, place.end), place.kind)
        for place in _merge(candidates)
    ]


def _candidates(text: str, using: Sequence[Detector]) -> Iterator[tuple[Detection, int]]:
    for order, detector in enumerate(using):
        if len(text) > _CHECKED:
            check_work()
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


def _decode_escape(escape: re.Match[str]) -> str:
    code = escape[0].lstrip("\\")
    if len(code) > 1:
        return chr(int(code[1:], 16))
    return _LETTERS.get(code, code)
