"""A text as people read it, whatever letters it is set in.

Models and word processors write a hyphen that does not break and a curly apostrophe where somebody
types the plain one, pages hide soft hyphens in words, and keyboards of East Asia have wide digits.
"""

from __future__ import annotations

import re
import unicodedata
from array import array

_HYPHENS = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
_APOSTROPHES = "\u2018\u2019\u201a\u201b\u2032\u02b9\u02bc\u00b4"
_QUOTES = "\u201c\u201d\u201e\u201f\u2033\u02ba\u00ab\u00bb"
_SIGNS = {"-": _HYPHENS, "'": _APOSTROPHES, '"': _QUOTES}
# Soft hyphens, joiners, marks of direction, variants of one picture, a byte order mark.
_UNSEEN = (
    r"\u00ad\u034f\u061c\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
    r"\U000e0000-\U000e01ef"
)
_UNSEEN_RUN = re.compile(f"[{_UNSEEN}]+")
_SIGN = re.compile(f"[{''.join(_SIGNS.values())}]")
_PLAIN_SIGN = {other: sign for sign, others in _SIGNS.items() for other in others}

MARK = r"[\u0300-\u036f]"
"""A mark on the letter before it: with one, that is another letter."""


def alike(character: str) -> str:
    """Tells what people write in the place of a sign."""
    sign = _PLAIN_SIGN.get(character, character)
    return sign + _SIGNS[sign] if sign in _SIGNS else character


def fold(text: str) -> str:
    """Sets a text in plain letters, all of one case, without what nobody sees."""
    if text.isascii():
        return text.lower()
    text = _UNSEEN_RUN.sub("", text)
    text = _SIGN.sub(lambda found: _PLAIN_SIGN[found[0]], text)
    cased = unicodedata.normalize("NFKD", text).casefold()
    return unicodedata.normalize("NFKD", cased)


class Folded:
    """A folded text that knows its places in the original."""

    def __init__(self, original: str) -> None:
        known: dict[str, str] = {}
        pieces: list[str] = []
        self._places = array("L")
        for at, character in enumerate(original):
            piece = known.get(character)
            if piece is None:
                piece = known[character] = fold(character)
            pieces.append(piece)
            self._places.extend([at] * len(piece))
        self.text = "".join(pieces)

    def original(self, start: int, end: int) -> tuple[int, int]:
        """Finds a place of ``text`` in the original; a letter that is two belongs to it whole."""
        return self._places[start], self._places[end - 1] + 1
