"""Folding: case, normalization, typographic variants and invisible characters do not matter.

Models and word processors write non-breaking hyphens and curly apostrophes, web pages contain soft
hyphens, and East Asian keyboards produce full-width digits.
"""

from __future__ import annotations

import re
import string
import unicodedata
from functools import lru_cache

_HYPHENS = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
_APOSTROPHES = "\u2018\u2019\u201a\u201b\u2032\u02b9\u02bc\u00b4"
_QUOTES = "\u201c\u201d\u201e\u201f\u2033\u02ba\u00ab\u00bb"
_SIGNS = {"-": _HYPHENS, "'": _APOSTROPHES, '"': _QUOTES}
# Soft hyphens, joiners, direction marks, variation selectors, byte order marks, tags.
_INVISIBLE = (
    r"\u00ad\u034f\u061c\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
    r"\U000e0000-\U000e01ef"
)
_INVISIBLE_RUN = re.compile(f"[{_INVISIBLE}]+")
_SIGN = re.compile(f"[{''.join(_SIGNS.values())}]")
_PLAIN_SIGN = {other: sign for sign, others in _SIGNS.items() for other in others}
_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)

NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_MARK = re.compile(r"[\u0300-\u036f]")


def fold(text: str) -> str:
    """Return a text in compatibility-decomposed lower case without invisible characters."""
    if text.isascii():
        return text.lower()
    text = _INVISIBLE_RUN.sub("", text)
    text = _SIGN.sub(lambda match: _PLAIN_SIGN[match[0]], text)
    cased = unicodedata.normalize("NFKD", text).casefold()
    return unicodedata.normalize("NFKD", cased)


fold_character = lru_cache(maxsize=4096)(fold)


def ascii_lower(text: str) -> str:
    """Return a text with its ASCII letters in lower case; no position changes."""
    return text.lower() if text.isascii() else text.translate(_LOWER)


def bytes_lower(text: str) -> str:
    """Return bytes, one character each, with their ASCII letters in lower case."""
    try:
        return text.encode("latin-1").lower().decode("latin-1")
    except UnicodeEncodeError:
        # With decoded escapes of other characters.
        return ascii_lower(text)


def begins_with_mark(text: str, position: int) -> bool:
    """Return whether a combining mark follows, which makes another letter of the one before."""
    return _MARK.match(text, position) is not None
