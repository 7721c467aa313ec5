"""What is looked for: a string in all its spellings, a pattern, or what detectors know."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import NamedTuple, Protocol

from django_agent_sessions.detectors import Detector, detect
from django_agent_sessions.detectors.escapes import Unescaped

from . import masks
from .encoded import coded_texts
from .folding import MARK, Folded, fold
from .spellings import GAP, MAYBE_SPELLED, forms, plain, spelled, unescaped

_GROUPED = 8
_GAPS = re.compile(r"[\s\-.()/+_]+")
_LONGEST_NUMBER = 64
_LONG = 2000
_SHORT = 800


class Found(NamedTuple):
    """A place in a text."""

    start: int
    end: int
    kind: str
    """What is there, as the mask says it; empty for what was named by somebody."""


class Finder(Protocol):
    """Finds places in texts."""

    exact: bool
    """Whether what it finds was meant. In an id, what a detector takes for a card is chance."""

    def find(self, text: str) -> Iterable[Found]:
        """Finds the places in a text, in any order."""
        ...


class Spelled:
    r"""A string in any case, with any white space, escaped, decomposed.

    Tool arguments are JSON inside of JSON, and pages and addresses have escapes of their own, so
    each character may also stand as ``\u0041``, ``%41`` or an entity.

    A number of eight digits or more, with letters or without, is found with other spaces and signs
    between them, too.

    Of a longer text only the escapes with backslashes are read, because a pattern with all of them
    would take long to make; one of more than 2,000 characters is only found as it is, or escaped
    once or twice.
    """

    exact = True

    def __init__(self, text: str) -> None:
        self._text = text

    def find(self, text: str) -> Iterator[Found]:
        """Finds the string."""
        if self._grouped is not None:
            for match in self._grouped.finditer(text):
                yield Found(*match.span(), "")
        if len(self._text) > _LONG:
            yield from self._find_long(text)
            return
        if len(text) < self.shortest:
            # No spelling is shorter than the string, and to make the pattern takes long.
            return
        # The larger pattern takes many times as long, and few texts hold an escape.
        escaped = MAYBE_SPELLED.search(text)
        pattern = self._spelled if escaped and self._is_short else self._plain
        for match in pattern.finditer(text):
            yield Found(*match.span(), "")
        if escaped and not self._is_short:
            read = Unescaped(text)
            for match in self._unescaped.finditer(read.text):
                yield Found(*read.original(*match.span()), "")

    @cached_property
    def _grouped(self) -> re.Pattern[str] | None:
        """Of a number, its digits in any groups or none: of a card, an account, a telephone."""
        return _grouped(self._text)

    @cached_property
    def _forms(self) -> set[str]:
        return forms(self._text)

    @cached_property
    def shortest(self) -> int:
        """The characters of its shortest form."""
        return min(len("".join(form.split())) for form in self._forms)

    @cached_property
    def _is_short(self) -> bool:
        return sum(map(len, self._forms)) <= _SHORT

    @cached_property
    def _plain(self) -> re.Pattern[str]:
        return self._compiled(plain)

    @cached_property
    def _spelled(self) -> re.Pattern[str]:
        return self._compiled(spelled)

    @cached_property
    def _unescaped(self) -> re.Pattern[str]:
        return self._compiled(lambda form: unescaped(Unescaped(form).text))

    def _compiled(self, spell: Callable[[str], str]) -> re.Pattern[str]:
        ordered = sorted(self._forms, key=len, reverse=True)
        return re.compile("|".join(dict.fromkeys(map(spell, ordered))), re.IGNORECASE)

    def _find_long(self, text: str) -> Iterator[Found]:
        for form in self._long_forms if len(text) >= len(self._text) else ():
            at = text.find(form)
            while at >= 0:
                yield Found(at, at + len(form), "")
                at = text.find(form, at + len(form))

    @cached_property
    def _long_forms(self) -> set[str]:
        once = {json.dumps(self._text, ensure_ascii=ascii_)[1:-1] for ascii_ in (True, False)}
        return {self._text, *once, *(json.dumps(form)[1:-1] for form in once)}


class Literal:
    """A string, however it is spelled, in whatever letters it is set, and in base64."""

    exact = True

    def __init__(self, text: str) -> None:
        if not text.strip():
            raise ValueError("nothing to look for")
        self._text = text.strip()
        self.spelled = Spelled(self._text)
        """Finds it in bytes, in which nothing is set in letters, whatever they are read as."""

    def find(self, text: str) -> Iterator[Found]:
        """Finds the string."""
        yield from self._find_read(text)
        for start, end, said in coded_texts(text, self._shortest_code):
            if any(self._find_read(said)):
                # A part of it is no place of its own.
                yield Found(start, end, "")

    @cached_property
    def ascii(self) -> bool:
        """Whether all its bytes are the same in UTF-8 and in the older encodings."""
        return self._text.isascii()

    def _find_read(self, text: str) -> Iterator[Found]:
        yield from self.spelled.find(text)
        if len(self._text) <= _LONG and not (self.ascii and text.isascii()):
            yield from self._find_folded(text)

    def _find_folded(self, text: str) -> Iterator[Found]:
        whole = fold(text)
        if len(whole) < self._shortest_folded:
            return
        patterns = [pattern for pattern in self._folded if pattern.search(whole)]
        if not patterns:
            # Nearly always; to know the places takes long.
            return
        folded = Folded(text)
        for pattern in patterns:
            for match in pattern.finditer(folded.text):
                yield Found(*folded.original(*match.span()), "")

    @cached_property
    def _folded(self) -> list[re.Pattern[str]]:
        words = fold(self._text).split()
        found = [re.compile(r"\s+".join(map(re.escape, words)) + f"(?!{MARK})")] if words else []
        grouped = _grouped(fold(self._text))
        return found if grouped is None else [*found, grouped]

    @cached_property
    def _shortest_folded(self) -> int:
        return len("".join(fold(self._text).split()))

    @cached_property
    def _shortest_code(self) -> int:
        # Of three bytes base64 makes four letters.
        return self.spelled.shortest * 4 // 3


def _grouped(text: str) -> re.Pattern[str] | None:
    letters = _GAPS.sub("", text)
    if not (letters.isascii() and letters.isalnum() and len(letters) <= _LONGEST_NUMBER):
        return None
    if sum(map(str.isdigit, letters)) < _GROUPED:
        return None
    return re.compile(r"(?<!\d)" + GAP.join(letters) + r"(?!\d)", re.IGNORECASE)


class Pattern:
    """A regular expression, in any case."""

    exact = True

    def __init__(self, pattern: str) -> None:
        self._pattern = re.compile(pattern, re.IGNORECASE)

    def find(self, text: str) -> Iterator[Found]:
        """Finds what matches, unless that is nothing at all."""
        for match in self._pattern.finditer(text):
            if match.end() > match.start():
                yield Found(*match.span(), "")


class Detecting:
    """What detectors find."""

    exact = False

    def __init__(self, detectors: Sequence[Detector]) -> None:
        self._detectors = detectors

    def find(self, text: str) -> Iterator[Found]:
        """Finds what the detectors find, and names its kind."""
        for start, end, kind in detect(text, self._detectors):
            yield Found(start, end, re.sub(r"[^A-Z0-9]+", "_", kind.upper()))


def may_hold(text: str, secret: str) -> bool:
    """Tells without a pattern whether a :class:`Literal` may be found in a text."""
    wanted = _squeezed(secret)
    # What is composed has fewer letters than what is not.
    inside = (said for _, _, said in coded_texts(text, len(secret) // 2))
    return any(
        MAYBE_SPELLED.search(said) or wanted in _squeezed(said) for said in chain([text], inside)
    )


def _squeezed(text: str) -> str:
    return _GAPS.sub("", fold(text))


def places(text: str, finders: Iterable[Finder]) -> list[Found]:
    """Finds all places in a text, in order, none overlapping; what is within a mask is none."""
    found = sorted(
        (place for finder in finders for place in finder.find(text)),
        key=lambda place: (place.start, -place.end),
    )
    if not found:
        return []
    there = masks.spans(text)
    merged: list[Found] = []
    for place in found:
        # Both are in order, and no mask overlaps another: of many masks, one is asked.
        at = bisect_right(there, (place.start, len(text) + 1)) - 1
        if at >= 0 and place.end <= there[at][1]:
            continue
        if merged and place.start < merged[-1].end:
            merged[-1] = _joined(merged[-1], place)
        else:
            merged.append(place)
    return merged


def _joined(one: Found, other: Found) -> Found:
    longer = other if other.end - other.start > one.end - one.start else one
    return Found(one.start, max(one.end, other.end), longer.kind)
