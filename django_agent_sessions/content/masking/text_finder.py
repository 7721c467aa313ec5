"""A string, searched in all readings of a text: as it is, decoded, and in base64.

A text is prepared once for all strings that are searched in it. Each step takes linear time.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from django_agent_sessions.content.decoded_text import DecodedText
from django_agent_sessions.content.work_budget import check_work

from .base64_text import SHORTEST_BASE64, Base64Texts, byte_forms
from .escapes import (
    MAYBE_ESCAPED,
    MOST_PASSES,
    decode_escapes,
    decode_markup,
    decode_quoted_printable,
)
from .folding import (
    NOT_ASCII,
    ascii_lower,
    begins_with_mark,
    bytes_lower,
    fold,
    fold_character,
)

_BLANKS = {False: re.compile(r"\s+"), True: re.compile(r"[\s+]+")}
_BYTE_BLANKS = {
    False: re.compile(r"[ \t\n\r\f\v]+"),
    True: re.compile(r"[ \t\n\r\f\v+]+"),
}
_GAPS = re.compile(r"[\s\-.()/+_]+")
_LONGEST_GAP = 3
_NO_GAP = "\0"
_NUL = re.compile("\0+")
_MOST_BASE64 = 2
"""How deep base64 within base64 is searched."""
_CHECKED = 4096
"""Between the steps through a text of more characters, the budget of a request is checked."""
_FEWEST_DIGITS = 8
_LONGEST_NUMBER = 64
_SHORTEST_DECODED = 4
# An escaped character has up to twelve characters, and base64 of UTF-16 twice is shorter.
_LONGEST_SPELLED = 16
_LEAST_LONGEST = 8 * 1024


class Match(NamedTuple):
    """A match in a text."""

    start: int
    end: int
    kind: str
    """The kind for the mask; empty if the caller named the text."""


class Reading:
    """One form of a text, with the positions of its characters in the text."""

    def __init__(
        self, text: str, parent: Reading | None, decoded: DecodedText | None, *, is_bytes: bool
    ) -> None:
        self.text = text
        self._parent = parent
        self._decoded = decoded
        self._is_bytes = is_bytes
        self._flat: dict[bool, str] = {}
        self._flattened: dict[bool, DecodedText] = {}

    def original(self, start: int, end: int) -> tuple[int, int]:
        """Return the span in the searched text of a span in this reading."""
        if self._decoded is None or self._parent is None:
            return start, end
        return self._parent.original(*self._decoded.original(start, end))

    def find(self, form: str, *, plus: bool) -> Iterator[tuple[int, int]]:
        """Yield where a folded string is in this reading; with ``plus``, + is a space."""
        if not form or form not in self._flat_text(plus):
            return
        flattened = self._flattened_text(plus)
        position = flattened.text.find(form)
        while position >= 0:
            end = position + len(form)
            start_folded, end_folded = flattened.original(position, end)
            if self._is_bytes or not begins_with_mark(self._folded_text, end_folded):
                yield self._unfolded(start_folded, end_folded)
            position = flattened.text.find(form, end)

    def find_number(self, letters: str) -> Iterator[tuple[int, int]]:
        """Yield where a number is in this reading, with its digits in any groups."""
        if letters not in self._without_gaps:
            return
        grouped, text = self._grouped, self._folded_text
        position = grouped.text.find(letters)
        while position >= 0:
            start, end = grouped.original(position, position + len(letters))
            whole = not (text[start - 1 : start].isdigit() or text[end : end + 1].isdigit())
            if whole:
                yield self._unfolded(start, end)
            position = grouped.text.find(letters, position + (len(letters) if whole else 1))

    # --- folded, with the positions only where something was found ---------------------------

    def _unfolded(self, start: int, end: int) -> tuple[int, int]:
        if self._folded is not None:
            start, end = self._folded.original(start, end)
        return self.original(start, end)

    @cached_property
    def _folded(self) -> DecodedText | None:
        if self._is_bytes or self.text.isascii():
            return None
        return DecodedText(self.text, NOT_ASCII, lambda match: fold_character(match[0]))

    @cached_property
    def _folded_text(self) -> str:
        if self._is_bytes:
            return bytes_lower(self.text)
        return ascii_lower(self.text if self._folded is None else self._folded.text)

    @cached_property
    def _quick(self) -> str:
        """The folded text without positions, which takes less time."""
        return self._folded_text if self._is_bytes else fold(self.text)

    def _flat_text(self, plus: bool) -> str:
        if plus not in self._flat:
            # Before the text as it is, the work was checked.
            if self._parent is not None:
                _check_work(self.text)
            self._flat[plus] = self._blanks(plus).sub(" ", self._quick)
        return self._flat[plus]

    def _flattened_text(self, plus: bool) -> DecodedText:
        if plus not in self._flattened:
            _check_work(self.text)
            blanks = self._blanks(plus)
            self._flattened[plus] = DecodedText(self._folded_text, blanks, lambda match: " ")
        return self._flattened[plus]

    def _blanks(self, plus: bool) -> re.Pattern[str]:
        return (_BYTE_BLANKS if self._is_bytes else _BLANKS)[plus]

    @cached_property
    def _without_gaps(self) -> str:
        return _GAPS.sub("", self._quick)

    @cached_property
    def _grouped(self) -> DecodedText:
        return DecodedText(
            self._folded_text,
            _GAPS,
            lambda match: "" if match.end() - match.start() <= _LONGEST_GAP else _NO_GAP,
        )


class SearchedText:
    """A text, or bytes as one character each, prepared for a search."""

    def __init__(
        self, text: str, *, is_bytes: bool = False, shortest: int = 0, depth: int = 0
    ) -> None:
        """``shortest`` is the length of the shortest base64 of a searched string."""
        self.text = text
        self._shortest = shortest
        self.is_bytes = is_bytes
        self._depth = depth

    @cached_property
    def _plain(self) -> Reading:
        return Reading(self.text, None, None, is_bytes=self.is_bytes)

    @cached_property
    def _has_escapes(self) -> bool:
        return MAYBE_ESCAPED.search(self.text) is not None

    @cached_property
    def _decoded(self) -> list[Reading]:
        return self._passes(self._plain) if self._has_escapes else []

    @cached_property
    def readings(self) -> list[Reading]:
        """The readings; the first one is the text as it is."""
        plain = self._plain
        bases = [plain]
        has_nul = self.is_bytes and "\0" in self.text
        if not (self._has_escapes or has_nul):
            return bases
        if has_nul:
            # UTF-16 of most texts is their UTF-8 with NULs between.
            bases.append(self._derive(plain, DecodedText(self.text, _NUL, lambda match: "")))
        found = list(bases)
        for base in bases:
            if not MAYBE_ESCAPED.search(base.text):
                continue
            decoded = self._decoded if base is plain else self._passes(base)
            found += decoded
            if (markup := decode_markup(base.text)) is not None:
                found += self._with_passes(base, markup)
            for reading in (base, *decoded[:1]):
                if (quoted := decode_quoted_printable(reading.text)) is not None:
                    found += self._with_passes(reading, quoted)
        return found

    def _with_passes(self, parent: Reading, decoded: DecodedText) -> list[Reading]:
        reading = self._derive(parent, decoded)
        return [reading, *self._passes(reading)]

    def _passes(self, reading: Reading) -> list[Reading]:
        found: list[Reading] = []
        while len(found) < MOST_PASSES and (decoded := decode_escapes(reading.text)) is not None:
            _check_work(reading.text)
            reading = self._derive(reading, decoded)
            found.append(reading)
        return found

    def _derive(self, parent: Reading, decoded: DecodedText) -> Reading:
        return Reading(decoded.text, parent, decoded, is_bytes=self.is_bytes)

    @cached_property
    def encoded(self) -> list[EncodedTexts]:
        """The base64 in the text as it is, and in its first decoded reading."""
        if self._depth >= _MOST_BASE64:
            return []
        _check_work(self.text)
        return [
            EncodedTexts(reading, found, self._shortest, self._depth + 1)
            for reading in (self._plain, *self._decoded[:1])
            if len(reading.text) >= self._shortest
            and (found := Base64Texts(reading.text, self._shortest)).content
        ]


class EncodedTexts:
    """The base64 in one reading of a text, decoded and prepared for a search."""

    def __init__(self, reading: Reading, found: Base64Texts, shortest: int, depth: int) -> None:
        self._reading = reading
        self._found = found
        self.content = SearchedText(found.content, is_bytes=True, shortest=shortest, depth=depth)
        """The bytes of all base64."""
        self.texts = SearchedText(found.texts, shortest=shortest, depth=depth)
        """Those that are UTF-8 with other characters than ASCII."""

    def original(self, start: int, end: int) -> tuple[int, int] | None:
        """Return the span in the searched text of a span in ``content``."""
        span = self._found.original(start, end)
        return None if span is None else self._reading.original(*span)

    def original_of_text(self, start: int, end: int) -> tuple[int, int]:
        """Return the span in the searched text of a span in ``texts``."""
        return self._reading.original(*self._found.original_of_text(start, end))


class TextFinder:
    """Finds a string in any case and typographic variant, escaped in any way, and in base64.

    A number of at least eight digits, with or without letters, matches with other separators, too.
    """

    exact = True

    def __init__(self, text: str) -> None:
        self._text = text.strip()
        if not self._text:
            raise ValueError("The text to search for is empty.")
        folded = fold(self._text)
        self._flat = " ".join(folded.split())
        self._plus = "+" not in self._flat and " " in self._flat
        self._number = _number_in(folded)
        forms = (self._flat, self._text, self._number or self._flat)
        self.shortest = min(len("".join(form.split())) for form in forms)
        # Base64 encodes three bytes as four characters.
        self.shortest_base64 = max(SHORTEST_BASE64, self.shortest * 4 // 3)
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


def _number_in(folded: str) -> str | None:
    """Return the letters of a number: a card, an account, a telephone."""
    letters = _GAPS.sub("", folded)
    if not (letters.isascii() and letters.isalnum() and len(letters) <= _LONGEST_NUMBER):
        return None
    return letters if sum(map(str.isdigit, letters)) >= _FEWEST_DIGITS else None


def _check_work(text: str) -> None:
    if len(text) > _CHECKED:
        check_work()


def _with_backslashes(text: str, start: int, end: int) -> tuple[int, int]:
    """Extend a span over the backslashes around it."""
    while start > 0 and text[start - 1] == "\\":
        start -= 1
    while end < len(text) and text[end] == "\\":
        end += 1
    return start, end
