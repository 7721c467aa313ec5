"""Normalization of typographic variants, for searching.

Models and word processors write non-breaking hyphens and curly apostrophes, web pages contain soft
hyphens, and East Asian keyboards produce full-width digits.
"""

from __future__ import annotations

import re
import unicodedata
from array import array

_HYPHENS = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
_APOSTROPHES = "\u2018\u2019\u201a\u201b\u2032\u02b9\u02bc\u00b4"
_QUOTES = "\u201c\u201d\u201e\u201f\u2033\u02ba\u00ab\u00bb"
_SIGNS = {"-": _HYPHENS, "'": _APOSTROPHES, '"': _QUOTES}
# Soft hyphens, joiners, direction marks, variation selectors, byte order marks.
_INVISIBLE = (
    r"\u00ad\u034f\u061c\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
    r"\U000e0000-\U000e01ef"
)
_INVISIBLE_RUN = re.compile(f"[{_INVISIBLE}]+")
_SIGN = re.compile(f"[{''.join(_SIGNS.values())}]")
_PLAIN_SIGN = {other: sign for sign, others in _SIGNS.items() for other in others}

MARK = r"[\u0300-\u036f]"
"""A combining mark; it makes another letter of the character before it."""


def typographic_variants(character: str) -> str:
    """Return the typographic variants of a character, itself first."""
    sign = _PLAIN_SIGN.get(character, character)
    return sign + _SIGNS[sign] if sign in _SIGNS else character


def fold(text: str) -> str:
    """Return a text in compatibility-decomposed lower case without invisible characters."""
    if text.isascii():
        return text.lower()
    text = _INVISIBLE_RUN.sub("", text)
    text = _SIGN.sub(lambda match: _PLAIN_SIGN[match[0]], text)
    cased = unicodedata.normalize("NFKD", text).casefold()
    return unicodedata.normalize("NFKD", cased)


class Folded:
    """A folded text with a mapping of its positions to the original."""

    def __init__(self, original: str) -> None:
        cache: dict[str, str] = {}
        pieces: list[str] = []
        self._positions = array("L")
        for position, character in enumerate(original):
            piece = cache.get(character)
            if piece is None:
                piece = cache[character] = fold(character)
            pieces.append(piece)
            self._positions.extend([position] * len(piece))
        self.text = "".join(pieces)

    def original(self, start: int, end: int) -> tuple[int, int]:
        """Return the span in the original of a span in ``text``."""
        return self._positions[start], self._positions[end - 1] + 1
