"""Finders: search for a string in all its spellings, for a pattern, or with detectors."""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Protocol

from django_agent_sessions.content.detectors import Detector, detect
from django_agent_sessions.content.work_budget import check_work

from . import masks
from .base64_text import SHORTEST_BASE64
from .escapes import MAYBE_ESCAPED
from .text_finder import Match, SearchedText, TextFinder

_PIECE = 128 * 1024
"""The characters that are searched at once. The budget of a request is checked between pieces."""
_CHECKED = 16 * 1024
"""The budget is checked after about so many characters, if the texts are shorter than a piece."""
_LEAST = 256
"""A short text takes as long to search as so many characters of a long one."""
_BEFORE = 1024
"""The characters before a piece that decide whether a match begins in it."""
_LONGEST_DETECTED = 72 * 1024
_LONGEST_KEPT = 8 * 1024
_MOST_KEPT = 1024 * 1024
_ENTRY = 128
"""The bytes that a text, and a match in it, need besides the characters."""


class Finder(Protocol):
    """Searches texts."""

    exact: bool
    """Whether the caller named the text. A detector's match inside of an id is a coincidence."""

    shortest: int
    """The length of the shortest match."""

    longest: int | None
    """The length of the longest match, so that a long text is searched in pieces; None if a match
    can be as long as the text."""

    def find(self, searched: SearchedText) -> Iterable[Match]:
        """Return the matches in a text, in any order."""
        ...


class PatternFinder:
    """Finds a regular expression, ignoring the case."""

    exact = True
    shortest = 1
    longest: int | None = None

    def __init__(self, pattern: str) -> None:
        self._pattern = re.compile(pattern, re.IGNORECASE)

    def find(self, searched: SearchedText) -> Iterator[Match]:
        """Yield the matches that are not empty."""
        for match in self._pattern.finditer(searched.text):
            if match.end() > match.start():
                yield Match(*match.span(), "")


class DetectorFinder:
    """Finds what detectors detect."""

    exact = False
    shortest = 1
    longest: int | None = _LONGEST_DETECTED

    def __init__(self, detectors: Sequence[Detector]) -> None:
        self._detectors = detectors

    def find(self, searched: SearchedText) -> Iterator[Match]:
        for start, end, kind in detect(searched.text, self._detectors):
            yield Match(start, end, re.sub(r"[^A-Z0-9]+", "_", kind.upper()))


class Finders(tuple[Finder, ...]):
    """Finders that search equal texts once: a key, an id or a copied message occurs many times.

    The texts that were searched, and what was found, are kept as long as the object. It is made
    for one redaction and never stored, because the texts are those that have to disappear. Only
    short texts are kept, and no more than a megabyte.
    """

    def __init__(self, finders: Iterable[Finder] = ()) -> None:
        self._whole = [finder for finder in self if finder.longest is None]
        self._others = [finder for finder in self if finder.longest is not None]
        self._longest = max((finder.longest or 0 for finder in self), default=0)
        self._shortest = min((finder.shortest for finder in self), default=0)
        lengths = [f.shortest_base64 for f in self._others if isinstance(f, TextFinder)]
        self._shortest_base64 = min(lengths, default=SHORTEST_BASE64)
        self._unchecked = 0
        self._found: dict[str, Sequence[Match]] = {}
        self._room = _MOST_KEPT

    @cached_property
    def exact(self) -> Finders:
        """Those of texts that the caller named."""
        return self._limited([finder for finder in self if finder.exact])

    @cached_property
    def strings(self) -> Finders:
        """Those of strings, which are neither patterns nor detected."""
        return self._limited([finder for finder in self if isinstance(finder, TextFinder)])

    def _limited(self, finders: Sequence[Finder]) -> Finders:
        return self if len(finders) == len(self) else Finders(finders)

    def find(self, text: str) -> Iterable[Match]:
        """Return the matches in a text outside of masks, in order; overlapping ones are merged."""
        if len(text) > _LONGEST_KEPT:
            return self.search(text)
        if len(text) < self._shortest and text.isascii() and not MAYBE_ESCAPED.search(text):
            # Only other characters and escapes may stand for more than one.
            return ()
        found = self._found.get(text)
        if found is None:
            found = tuple(self.search(text))
            size = sys.getsizeof(text) + _ENTRY * (1 + len(found))
            if size <= self._room:
                self._room -= size
                self._found[text] = found
        return found

    def search(self, text: str, *, is_bytes: bool = False) -> Iterator[Match]:
        """Yield the same matches, found piece by piece; what was found is not kept."""
        rest: list[Match] = []
        if self._whole:
            self._check_work(text)
            rest = self._matches(text, self._whole, is_bytes)
        current: Match | None = None
        # Larger pieces for longer strings, so that no character is searched more than twice.
        size = max(_PIECE, self._longest)
        for first in range(0, len(text), size):
            last = first + size
            begin = max(0, first - _BEFORE)
            piece = text[begin : last + self._longest]
            self._check_work(piece)
            found = self._matches(piece, self._others, is_bytes)
            if not (found or rest):
                continue
            found = [
                match._replace(start=match.start + begin, end=match.end + begin)
                for match in found
                if match.start + begin < last and match.end + begin > first
            ]
            if rest:
                end = bisect_right(rest, (last,)) if last < len(text) else len(rest)
                found = sorted([*found, *rest[:end]], key=_order)
                rest = rest[end:]
            mask_spans = masks.mask_spans(piece)
            for match in found:
                if _is_masked(mask_spans, match.start - begin, match.end - begin):
                    continue
                if current is not None and match.start < current.end:
                    current = _merge(current, match)
                    continue
                if current is not None:
                    yield current
                current = match
        if current is not None:
            yield current

    def _matches(self, text: str, finders: Sequence[Finder], is_bytes: bool) -> list[Match]:
        """Return what some of the finders find, in order."""
        searched = SearchedText(text, is_bytes=is_bytes, shortest=self._shortest_base64)
        found: set[Match] = set()
        for finder in finders:
            found.update(finder.find(searched))
        return sorted(found, key=_order)

    def _check_work(self, text: str) -> None:
        self._unchecked += max(_LEAST, len(text))
        if self._unchecked >= _CHECKED:
            self._unchecked = 0
            check_work()


def find_matches(text: str, finders: Iterable[Finder]) -> list[Match]:
    """Return the matches in a text outside of masks, in order; overlapping ones are merged."""
    return list(Finders(finders).search(text))


def _order(match: Match) -> tuple[int, int]:
    return match.start, -match.end


def _is_masked(mask_spans: Sequence[tuple[int, int]], start: int, end: int) -> bool:
    # Masks are sorted and do not overlap, so that only one has to be compared.
    index = bisect_right(mask_spans, (start, float("inf"))) - 1
    return index >= 0 and end <= mask_spans[index][1]


def _merge(one: Match, other: Match) -> Match:
    longer = other if other.end - other.start > one.end - one.start else one
    return Match(one.start, max(one.end, other.end), longer.kind)
