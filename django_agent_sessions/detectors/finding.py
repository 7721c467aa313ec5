"""What a detector is, and how the findings of several become one list."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from .escapes import Unescaped

# A place in a text: start, end and, from a detector that finds several kinds of things, the kind.
Place = tuple[int, int] | tuple[int, int, str]


class Detection(NamedTuple):
    """A place in a text."""

    start: int
    end: int
    kind: str
    """What is there: the name of the detector, upper case in masks: ``[REDACTED:EMAIL]``."""


class Detector(Protocol):
    """Finds one kind of thing. Further ones are named by dotted path in ``DETECTORS``.

    A detector may also have a ``label``: what people read in forms, a text or a lazy translation.
    """

    name: str
    """Its name in settings, on the command line and in masks: letters, digits and ``_``."""

    def find(self, text: str) -> Iterable[Place]:
        r"""Finds the places."""
        ...


def detect(text: str, using: Sequence[Detector]) -> list[Detection]:
    r"""Finds all places in a text.

    Places that overlap become one, so that nothing of either stays readable. It is of the kind of
    the longest of them; between equals the order of ``using`` decides. A place never begins or
    ends within an escape such as ``\n``, so that JSON within a text stays JSON when it is masked.
    """
    plain = Unescaped(text)
    found = sorted(_candidates(plain.text, using), key=lambda item: (item[0].start, item[0].end))
    return [
        Detection(*plain.original(place.start, place.end), place.kind) for place in _merged(found)
    ]


def _candidates(text: str, using: Sequence[Detector]) -> Iterator[tuple[Detection, int]]:
    for order, detector in enumerate(using):
        for place in detector.find(text):
            start, end = place[0], place[1]
            if 0 <= start < end <= len(text):
                kind = place[2] if len(place) == 3 else detector.name
                yield Detection(start, end, kind), order


def _merged(found: Iterable[tuple[Detection, int]]) -> Iterator[Detection]:
    """Joins what overlaps; ``found`` is in the order of the starts."""
    whole: Detection | None = None
    best = (0, 0)
    for place, order in found:
        rank = (place.end - place.start, -order)
        if whole is None or place.start >= whole.end:
            if whole is not None:
                yield whole
            whole, best = place, rank
            continue
        kind = place.kind if rank > best else whole.kind
        whole, best = Detection(whole.start, max(whole.end, place.end), kind), max(best, rank)
    if whole is not None:
        yield whole
