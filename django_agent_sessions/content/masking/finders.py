"""Finders: search for a string in all its spellings, for a pattern, or with detectors."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import NamedTuple, Protocol

from django_agent_sessions.content.detectors import Detector, detect
from django_agent_sessions.content.detectors.detection import Unescaped

from . import masks
from .encodings import base64_texts
from .spelling import (
    GAP,
    MARK,
    MAYBE_SPELLED,
    Folded,
    escaped_pattern,
    fold,
    plain_pattern,
    unescaped_pattern,
    variants,
)

_GROUPED = 8
_GAPS = re.compile(r"[\s\-.()/+_]+")
_LONGEST_NUMBER = 64
_LONG = 2000
_SHORT = 800


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

    def find(self, text: str) -> Iterable[Match]:
        """Return the matches in a text, in any order."""
        ...


class SpellingFinder:
    r"""Finds a string in any case, white space, escaping and normalization.

    Each character matches its escapes ``\u0041`` and ``%41`` and its entities. A number of at
    least eight digits, with or without letters, matches with other separators, too.

    A pattern for all escapes takes long to compile. Therefore a long string matches only with
    backslash escapes, and one of more than 2,000 characters only verbatim or as JSON, escaped once
    or twice.
    """

    exact = True

    def __init__(self, text: str) -> None:
        self._text = text

    def find(self, text: str) -> Iterator[Match]:
        if self._grouped is not None:
            for match in self._grouped.finditer(text):
                yield Match(*match.span(), "")
        if len(self._text) > _LONG:
            yield from self._find_long(text)
            return
        if len(text) < self.shortest:
            # No spelling is shorter than the string; avoids compiling the pattern.
            return
        # The larger pattern is many times slower, and few texts contain an escape.
        escaped = MAYBE_SPELLED.search(text)
        pattern = self._spelled if escaped and self._is_short else self._plain
        for match in pattern.finditer(text):
            yield Match(*match.span(), "")
        if escaped and not self._is_short:
            decoded = Unescaped(text)
            for match in self._unescaped.finditer(decoded.text):
                yield Match(*decoded.original(*match.span()), "")

    @cached_property
    def _grouped(self) -> re.Pattern[str] | None:
        """Pattern for a number with its digits in any groups: a card, an account, a telephone."""
        return _grouped(self._text)

    @cached_property
    def _forms(self) -> set[str]:
        return variants(self._text)

    @cached_property
    def shortest(self) -> int:
        """The length of its shortest variant."""
        return min(len("".join(form.split())) for form in self._forms)

    @cached_property
    def _is_short(self) -> bool:
        return sum(map(len, self._forms)) <= _SHORT

    @cached_property
    def _plain(self) -> re.Pattern[str]:
        return self._compile(plain_pattern)

    @cached_property
    def _spelled(self) -> re.Pattern[str]:
        return self._compile(escaped_pattern)

    @cached_property
    def _unescaped(self) -> re.Pattern[str]:
        return self._compile(lambda form: unescaped_pattern(Unescaped(form).text))

    def _compile(self, spell: Callable[[str], str]) -> re.Pattern[str]:
        ordered = sorted(self._forms, key=len, reverse=True)
        return re.compile("|".join(dict.fromkeys(map(spell, ordered))), re.IGNORECASE)

    def _find_long(self, text: str) -> Iterator[Match]:
        for form in self._long_forms if len(text) >= len(self._text) else ():
            position = text.find(form)
            while position >= 0:
                yield Match(position, position + len(form), "")
                position = text.find(form, position + len(form))

    @cached_property
    def _long_forms(self) -> set[str]:
        escaped_once = {
            json.dumps(self._text, ensure_ascii=ascii_)[1:-1] for ascii_ in (True, False)
        }
        return {self._text, *escaped_once, *(json.dumps(form)[1:-1] for form in escaped_once)}


class TextFinder:
    """Finds a string in all its spellings and typographic variants, and in base64."""

    exact = True

    def __init__(self, text: str) -> None:
        if not text.strip():
            raise ValueError("The text to search for is empty.")
        self._text = text.strip()
        self.exact_finder = SpellingFinder(self._text)
        """Finds the string in decoded bytes, without typographic variants."""

    def find(self, text: str) -> Iterator[Match]:
        yield from self._find_plain(text)
        for start, end, decoded in base64_texts(text, self._shortest_code):
            if any(self._find_plain(decoded)):
                # The whole base64 text is one match.
                yield Match(start, end, "")

    @cached_property
    def ascii(self) -> bool:
        """Whether its bytes are the same in UTF-8 and in legacy encodings."""
        return self._text.isascii()

    def _find_plain(self, text: str) -> Iterator[Match]:
        yield from self.exact_finder.find(text)
        if len(self._text) <= _LONG and not (self.ascii and text.isascii()):
            yield from self._find_folded(text)

    def _find_folded(self, text: str) -> Iterator[Match]:
        folded_text = fold(text)
        if len(folded_text) < self._shortest_folded:
            return
        patterns = [pattern for pattern in self._folded if pattern.search(folded_text)]
        if not patterns:
            # The usual case; mapping the positions is slow.
            return
        folded = Folded(text)
        for pattern in patterns:
            for match in pattern.finditer(folded.text):
                yield Match(*folded.original(*match.span()), "")

    @cached_property
    def _folded(self) -> list[re.Pattern[str]]:
        words = fold(self._text).split()
        patterns = [re.compile(r"\s+".join(map(re.escape, words)) + f"(?!{MARK})")] if words else []
        grouped = _grouped(fold(self._text))
        return patterns if grouped is None else [*patterns, grouped]

    @cached_property
    def _shortest_folded(self) -> int:
        return len("".join(fold(self._text).split()))

    @cached_property
    def _shortest_code(self) -> int:
        # Base64 encodes three bytes as four characters.
        return self.exact_finder.shortest * 4 // 3


def _grouped(text: str) -> re.Pattern[str] | None:
    letters = _GAPS.sub("", text)
    if not (letters.isascii() and letters.isalnum() and len(letters) <= _LONGEST_NUMBER):
        return None
    if sum(map(str.isdigit, letters)) < _GROUPED:
        return None
    return re.compile(r"(?<!\d)" + GAP.join(letters) + r"(?!\d)", re.IGNORECASE)


class PatternFinder:
    """Finds a regular expression, ignoring the case."""

    exact = True

    def __init__(self, pattern: str) -> None:
        self._pattern = re.compile(pattern, re.IGNORECASE)

    def find(self, text: str) -> Iterator[Match]:
        """Yield the matches that are not empty."""
        for match in self._pattern.finditer(text):
            if match.end() > match.start():
                yield Match(*match.span(), "")


class DetectorFinder:
    """Finds what detectors detect."""

    exact = False

    def __init__(self, detectors: Sequence[Detector]) -> None:
        self._detectors = detectors

    def find(self, text: str) -> Iterator[Match]:
        for start, end, kind in detect(text, self._detectors):
            yield Match(start, end, re.sub(r"[^A-Z0-9]+", "_", kind.upper()))


def may_match(text: str, secret: str) -> bool:
    """Return whether a :class:`TextFinder` may match in a text, without compiling its pattern."""
    wanted = _fold_without_gaps(secret)
    # A composed text has fewer characters than a decomposed one.
    encoded_texts = (decoded for _, _, decoded in base64_texts(text, len(secret) // 2))
    return any(
        MAYBE_SPELLED.search(decoded) or wanted in _fold_without_gaps(decoded)
        for decoded in chain([text], encoded_texts)
    )


def _fold_without_gaps(text: str) -> str:
    return _GAPS.sub("", fold(text))


def find_matches(text: str, finders: Iterable[Finder]) -> list[Match]:
    """Return the matches in a text outside of masks, in order; overlapping ones are merged."""
    matches = sorted(
        (match for finder in finders for match in finder.find(text)),
        key=lambda match: (match.start, -match.end),
    )
    if not matches:
        return []
    mask_spans = masks.mask_spans(text)
    merged: list[Match] = []
    for match in matches:
        # Masks are sorted and do not overlap, so that only one has to be compared.
        index = bisect_right(mask_spans, (match.start, len(text) + 1)) - 1
        if index >= 0 and match.end <= mask_spans[index][1]:
            continue
        if merged and match.start < merged[-1].end:
            merged[-1] = _merge(merged[-1], match)
        else:
            merged.append(match)
    return merged


def _merge(one: Match, other: Match) -> Match:
    longer = other if other.end - other.start > one.end - one.start else one
    return Match(one.start, max(one.end, other.end), longer.kind)


def find_matches_in_bytes(data: bytes, finders: Sequence[Finder]) -> list[Match]:
    """Return the matches in bytes that are not valid UTF-8, decoded with several encodings."""
    literals = [finder for finder in finders if isinstance(finder, TextFinder)]
    # Typographic variants of characters are not searched in bytes.
    spelled: list[Finder] = [
        finder.exact_finder if isinstance(finder, TextFinder) else finder for finder in finders
    ]
    matches = find_matches(data.decode("latin-1"), spelled)
    if literals:
        matches = sorted([*matches, *_matches_in_encodings(data, literals)])
    merged: list[Match] = []
    for match in matches:
        if merged and match.start < merged[-1].end:
            merged[-1] = merged[-1]._replace(end=max(merged[-1].end, match.end))
        else:
            merged.append(match)
    return merged


def _matches_in_encodings(data: bytes, literals: Sequence[TextFinder]) -> Iterator[Match]:
    if not all(finder.ascii for finder in literals):
        yield from _matches_in_encoding(data, "utf-8", "surrogateescape", 0, literals)
    # UTF-16 text may begin at an even or at an odd byte.
    for offset in (0, 1):
        for encoding in ("utf-16-le", "utf-16-be"):
            yield from _matches_in_encoding(data, encoding, "surrogatepass", offset, literals)


def _matches_in_encoding(
    data: bytes, encoding: str, errors: str, offset: int, finders: Sequence[TextFinder]
) -> Iterator[Match]:
    if encoding != "utf-8":
        data = data[offset : len(data) - (len(data) - offset) % 2]
    try:
        text = data.decode(encoding, errors)
    except UnicodeDecodeError:
        # An unpaired surrogate at the end.
        text = data[:-2].decode(encoding, errors)
    position, done = offset, 0
    for match in find_matches(text, [finder.exact_finder for finder in finders]):
        start = position + len(text[done : match.start].encode(encoding, errors))
        position = start + len(text[match.start : match.end].encode(encoding, errors))
        done = match.end
        yield Match(start, position, match.kind)
