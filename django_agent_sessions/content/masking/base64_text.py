"""Base64 within texts, at any position and alignment, also wrapped into lines.

Where base64 begins is unknown if letters, ``_`` or ``/`` stand before it, which are characters of
its alphabets. Therefore each run of these characters is decoded from its first four positions.
"""

from __future__ import annotations

import base64
import re
from array import array
from bisect import bisect_right
from collections.abc import Iterator

from django_agent_sessions.content.decoded_text import DecodedText

_CODED = "[A-Za-z0-9+/_-]"
# Lines of an e-mail may be indented or quoted.
_BREAK = re.compile(r"[ \t]{0,16}\r?\n[ \t>]{0,16}")
_RUN = re.compile(rf"{_CODED}{{4,}}+(?:[ \t]{{0,16}}\r?\n[ \t>]{{0,16}}{_CODED}++)*+={{0,2}}")
_ESCAPED = re.compile(r"\\u|%[89a-fA-F]|&")
_ALIGNMENTS = 4
# Decodes to three bytes that occur in no text.
_SEPARATOR = "////"
_TEXT_SEPARATOR = "\uffff"

SHORTEST_BASE64 = 8
"""The fewest characters of base64 that is decoded."""

_SURE = 5
"""Fewer bytes can occur in base64 by chance."""


class Base64Texts:
    """All base64 of a text, decoded at every alignment."""

    def __init__(self, text: str, shortest: int) -> None:
        """``shortest`` is the length of the shortest base64 of a searched string."""
        self._runs: list[re.Match[str]] = []
        self._letters: list[str] = []
        self._starts = array("q")
        pieces: list[str] = []
        length = 0
        for run in _RUN.finditer(text):
            if run.end() - run.start() < shortest:
                continue
            letters = run[0].rstrip("=")
            if "\n" in letters:
                letters = _BREAK.sub("", letters)
            if len(letters) < shortest:
                continue
            self._runs.append(run)
            self._letters.append(letters)
            for alignment in range(_ALIGNMENTS):
                piece = letters[alignment:]
                piece += "A" * (-len(piece) % 4)
                pieces += (piece, _SEPARATOR)
                self._starts.append(length)
                length += len(piece) + len(_SEPARATOR)
        joined = _plain_alphabet("".join(pieces))
        self.content = base64.b64decode(joined).decode("latin-1")
        """The bytes of all of them, one character for each."""
        self.texts, self._text_starts, self._text_runs = self._decode_texts()

    def _decode_texts(self) -> tuple[str, array[int], list[int]]:
        """Return those that are UTF-8 with other characters than ASCII, maybe escaped, as one text.

        Only whole ones: they are searched with typographic variants, too.
        """
        texts: list[str] = []
        starts, runs = array("q"), []
        length = 0
        for number, letters in enumerate(self._letters):
            start = self._starts[number * _ALIGNMENTS] // 4 * 3
            piece = self.content[start : start + len(letters) * 3 // 4]
            if piece.isascii() and not _ESCAPED.search(piece):
                continue
            try:
                text = piece.encode("latin-1").decode()
            except UnicodeDecodeError:
                continue
            texts += (text, _TEXT_SEPARATOR)
            starts.append(length)
            runs.append(number)
            length += len(text) + 1
        return "".join(texts), starts, runs

    def original(self, start: int, end: int) -> tuple[int, int] | None:
        """Return the lines with a span of ``content``; None if it may be there by chance."""
        number = bisect_right(self._starts, start // 3 * 4) - 1
        index, alignment = divmod(number, _ALIGNMENTS)
        if end - start < _SURE and not (alignment == 0 and self._is_text(number)):
            return None
        first = alignment + start // 3 * 4 - self._starts[number]
        last = alignment + -(-end // 3) * 4 - self._starts[number]
        return self._lines(self._runs[index], first, min(last, len(self._letters[index])))

    def original_of_text(self, start: int, end: int) -> tuple[int, int]:
        """Return the lines with a span of ``texts``."""
        return self._runs[self._text_runs[bisect_right(self._text_starts, start) - 1]].span()

    def _is_text(self, number: int) -> bool:
        letters = _plain_alphabet(self._letters[number // _ALIGNMENTS])
        # A single remaining character does not encode a byte.
        letters = letters[: len(letters) - (len(letters) % 4 == 1)]
        try:
            base64.b64decode(letters + "=" * (-len(letters) % 4)).decode()
        except ValueError:
            return False
        return True

    def _lines(self, run: re.Match[str], first: int, last: int) -> tuple[int, int]:
        """Return the span of the lines of a run with the characters from first to last."""
        if "\n" not in run[0]:
            return run.span()
        start, end = DecodedText(run[0], _BREAK, lambda match: "").original(first, last)
        breaks = [match.span() for match in _BREAK.finditer(run[0])]
        begin = max((after for _, after in breaks if after <= start), default=0)
        stop = min((before for before, _ in breaks if before >= end), default=len(run[0]))
        return run.start() + begin, run.start() + stop


def _plain_alphabet(letters: str) -> str:
    return letters.replace("-", "+").replace("_", "/")


def byte_forms(text: str) -> Iterator[str]:
    """Yield the bytes of a text in the usual encodings, one character each, without NULs."""
    for encoding in ("utf-8", "utf-16-le", "utf-16-be"):
        data = text.encode(encoding, "surrogatepass")
        yield data.replace(b"\0", b"").decode("latin-1")
