"""Finders: search for a string in all its spellings, for a pattern, or with detectors."""

from __future__ import annotations

import re
import sys
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple, Protocol

from django_agent_sessions.content.detectors import Detector, detect
from django_agent_sessions.content.work_budget import check_work

from . import masks
from .base64_text import byte_forms
from .folding import ascii_lower, fold
from .readings import GAPS, EncodedTexts, Reading, SearchedText

_FEWEST_DIGITS = 8
_LONGEST_NUMBER = 64
_SHORTEST_DECODED = 4
_PIECE = 128 * 1024
"""The characters that are searched at once. The budget of a request is checked between pieces."""
_BEFORE = 1024
"""The characters before a piece that decide whether a match begins in it."""
_LONGEST_DETECTED = 72 * 1024
_LONGEST_KEPT = 8 * 1024
_MOST_KEPT = 1024 * 1024
_ENTRY = 128
"""The bytes that a text, and a match in it, need besides the characters."""
# An escaped character has up to twelve characters, and base64 of UTF-16 twice is shorter.
_LONGEST_SPELLED = 16
_LEAST_LONGEST = 8 * 1024


class Match(NamedTuple):
    """A match in a text."""

    start: int
    end: int
    kind: str
    """The kind for the mask; empty if the caller named the text."""


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


class TextFinder:
    """Finds a string in any case and typographic variant, escaped in any way, and in base64.

    A number of at least eight digits, with or without letters, matches with other separators, too.
    """

    exact = True

    def __init__(self, text: str) -> None:
        self._text = text.strip()
        if not self._text:
            raise ValueError("The text to search for is empty.")
        self._flat = " ".join(fold(self._text).split())
        self._plus = "+" not in self._flat and " " in self._flat
        self.shortest = len("".join(self._flat.split()))
        self.longest: int | None = max(_LEAST_LONGEST, _LONGEST_SPELLED * len(self._text))

    def find(self, searched: SearchedText) -> Iterator[Match]:
        for start, end in self._find(searched):
            yield Match(start, end, "")

    def _find(self, searched: SearchedText) -> Iterator[tuple[int, int]]:
        if not self._text.isascii():
            # With the invisible characters at its ends.
            for match in re.finditer(re.escape(self._text), searched.text):
                yield match.span()
        if searched.is_bytes:
            for form in self._byte_forms:
                yield from _find_form(searched.readings, form, " " in form)
        else:
            yield from _find_form(searched.readings, self._flat, self._plus)
        if self._number is not None:
            for reading in searched.readings:
                yield from reading.find_number(self._number)
        yield from self._find_unescaped(searched)
        for encoded in searched.encoded:
            yield from self._find_encoded(encoded)

    def _find_encoded(self, encoded: EncodedTexts) -> Iterator[tuple[int, int]]:
        for span in self._find(encoded.content):
            if (original := encoded.original(*span)) is not None:
                yield original
        if encoded.texts.text:
            for span in self._find(encoded.texts):
                yield encoded.original_of_text(*span)

    def _find_unescaped(self, searched: SearchedText) -> Iterator[tuple[int, int]]:
        """Find a string that contains escapes itself, which a reading has decoded."""
        text = searched.text
        for reading in searched.readings[1:]:
            for form in self._unescaped:
                for start, end in reading.find(form, plus=False):
                    if "\\" not in self._text:
                        yield start, end
                    elif "\\" in text[max(0, start - 1) : end + 1]:
                        yield _with_backslashes(text, start, end)
        if not self._text.strip("\\"):
            for run in re.finditer(r"\\+", text):
                if run.end() - run.start() >= len(self._text):
                    yield run.span()

    @cached_property
    def _unescaped(self) -> list[str]:
        readings = SearchedText(self._text).readings[1:]
        shortest = 1 if "\\" in self._text else _SHORTEST_DECODED
        forms = dict.fromkeys(" ".join(fold(reading.text).split()) for reading in readings)
        return [form for form in forms if len(form) >= shortest and form != self._flat]

    @cached_property
    def _number(self) -> str | None:
        """The letters of a number: a card, an account, a telephone."""
        letters = GAPS.sub("", fold(self._text))
        if not (letters.isascii() and letters.isalnum() and len(letters) <= _LONGEST_NUMBER):
            return None
        return letters if sum(map(str.isdigit, letters)) >= _FEWEST_DIGITS else None

    @cached_property
    def _byte_forms(self) -> list[str]:
        cased = (self._text, self._text.upper(), self._text.lower())
        variants = {unicodedata.normalize(form, one) for one in cased for form in ("NFC", "NFD")}
        forms = dict.fromkeys(
            ascii_lower(re.sub(r"[ \t\n\r\f\v]+", " ", form))
            for variant in sorted(variants)
            # And the text itself, whose characters may be escaped in ASCII.
            for form in (*byte_forms(variant), variant)
        )
        return list(forms)


class WordFinder(TextFinder):
    """Finds a string as a :class:`TextFinder` does, but not within a word."""

    def find(self, searched: SearchedText) -> Iterator[Match]:
        for match in super().find(searched):
            before = searched.text[max(0, match.start - 1) : match.start]
            after = searched.text[match.end : match.end + 1]
            if not (before.isalnum() or after.isalnum()):
                yield match


def _find_form(
    readings: Sequence[Reading], form: str, has_space: bool
) -> Iterator[tuple[int, int]]:
    for reading in readings:
        yield from reading.find(form, plus=False)
        if has_space and "+" in reading.text:
            yield from reading.find(form, plus=True)


def _with_backslashes(text: str, start: int, end: int) -> tuple[int, int]:
    """Extend a span over the backslashes around it."""
    while start > 0 and text[start - 1] == "\\":
        start -= 1
    while end < len(text) and text[end] == "\\":
        end += 1
    return start, end


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
        lengths = [f.shortest for f in self._others if isinstance(f, TextFinder)]
        self._shortest = min(lengths, default=0)
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
        rest = _sorted(SearchedText(text, is_bytes=is_bytes), self._whole) if self._whole else []
        current: Match | None = None
        # Larger pieces for longer strings, so that no character is searched more than twice.
        size = max(_PIECE, self._longest)
        for first in range(0, len(text), size):
            last = first + size
            begin = max(0, first - _BEFORE)
            piece = text[begin : last + self._longest]
            found = [
                match._replace(start=match.start + begin, end=match.end + begin)
                for match in self._search_piece(piece, is_bytes)
                if match.start + begin < last and match.end + begin > first
            ]
            if rest:
                end = bisect_right(rest, (last,)) if last < len(text) else len(rest)
                found = sorted([*found, *rest[:end]], key=_order)
                rest = rest[end:]
            if not found:
                continue
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

    def _search_piece(self, piece: str, is_bytes: bool) -> list[Match]:
        searched = SearchedText(piece, is_bytes=is_bytes, shortest=self._shortest)
        return _sorted(searched, self._others)


def find_matches(text: str, finders: Iterable[Finder]) -> list[Match]:
    """Return the matches in a text outside of masks, in order; overlapping ones are merged."""
    return list(Finders(finders).search(text))


def _sorted(searched: SearchedText, finders: Sequence[Finder]) -> list[Match]:
    check_work()
    return sorted({match for finder in finders for match in finder.find(searched)}, key=_order)


def _order(match: Match) -> tuple[int, int]:
    return match.start, -match.end


def _is_masked(mask_spans: Sequence[tuple[int, int]], start: int, end: int) -> bool:
    # Masks are sorted and do not overlap, so that only one has to be compared.
    index = bisect_right(mask_spans, (start, float("inf"))) - 1
    return index >= 0 and end <= mask_spans[index][1]


def _merge(one: Match, other: Match) -> Match:
    longer = other if other.end - other.start > one.end - one.start else one
    return Match(one.start, max(one.end, other.end), longer.kind)
