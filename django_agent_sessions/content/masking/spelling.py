"""The spellings of a string: case, normalization, typographic variants, JSON, URL, HTML escapes.

Models and word processors write non-breaking hyphens and curly apostrophes, web pages contain soft
hyphens, and East Asian keyboards produce full-width digits.

No pattern takes quadratic time: each repetition is bounded or possessive.
"""

from __future__ import annotations

import re
import string
import unicodedata
from array import array
from html.entities import html5

MAYBE_SPELLED = re.compile(r"[\\%&+]")
"""Matches in every text that contains an escaped character."""

# As many backslashes as JSON four levels deep has before a quote. Bounded, because a long run of
# backslashes would take quadratic time. No escape begins within them.
_BACKSLASHES = r"\\{1,16}+"
# After searched backslashes, whose pattern also consumes those of the escape.
_BACKSLASHES_OR_PRECEDING = rf"(?:{_BACKSLASHES}|(?<=\\))"
_NO_BACKSLASH = r"(?<!\\)(?<!\\u005c)(?<!%5c)(?<!&#92;)(?<!&#x5c;)(?<!&bsol;)"
"""A run of backslashes matches only from its beginning."""
_RUN = re.compile(r"\\+|[^\\]")
# A URL or page that is quoted in another one has doubly escaped characters.
_PERCENT = "%(?:25){0,3}"
_AND = "&(?:amp;){0,3}"
_ENTITY_NAMES: dict[str, list[str]] = {}
for _name, _entity_text in html5.items():
    if _name.endswith(";"):
        _ENTITY_NAMES.setdefault(_entity_text, []).append(_name)
GAP = (
    rf"(?:[\s\-.()/+_]|{_BACKSLASHES}(?:[nrt]|u00(?:20|a0))|{_PERCENT}(?:2[089bdf]|0[9ad])"
    rf"|{_AND}(?:nbsp;|#32;|#160;)){{0,2}}"
)
"""Separators between the groups of a number, plain or escaped."""
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


def variants(text: str) -> set[str]:
    """Return the case and normalization variants that ``re.IGNORECASE`` does not match."""
    cased = {text, text.upper(), text.lower(), text.casefold()}
    composed = {unicodedata.normalize(form, one) for one in cased for form in ("NFC", "NFD")}
    return {form.lower() for form in composed} | {text}


def plain_pattern(text: str) -> str:
    """Return a pattern that matches a text without escapes."""
    return r"\s+".join(re.escape(word) for word in text.split())


def unescaped_pattern(text: str) -> str:
    """Return a pattern for texts whose escapes are decoded, except those of backslashes."""
    return re.sub(r"(?:\\\\)+", lambda row: f"(?:{row[0]}){{1,16}}+", plain_pattern(text))


def escaped_pattern(text: str) -> str:
    """Return a pattern that matches a text with escapes of any kind."""
    pieces: list[str] = []
    after_backslash = False
    for at, word in enumerate(text.split()):
        if at:
            pieces.append(_space(after_backslash))
            after_backslash = False
        for unit in _RUN.findall(word):
            pieces.append(
                _backslashes(len(unit)) if unit[0] == "\\" else _character(unit, after_backslash)
            )
            after_backslash = unit[0] == "\\"
    return (_NO_BACKSLASH if text.lstrip().startswith("\\") else "") + "".join(pieces)


def _space(after_backslash: bool) -> str:
    escape = _BACKSLASHES_OR_PRECEDING if after_backslash else _BACKSLASHES
    return (
        rf"(?:\s|{escape}(?:[nrtfv]|[ux](?:00)?(?:09|0[ad]|20|a0))|{_PERCENT}(?:20|0[9ad])"
        rf"|{_PERCENT}c2{_PERCENT}a0|\+"
        rf"|{_AND}(?:nbsp;|#0{{0,4}}(?:9|10|13|32|160);|#x0{{0,4}}(?:9|a|d|20|a0);))+"
    )


def _backslashes(count: int) -> str:
    # Possessive: otherwise a run could be split in exponentially many ways.
    return rf"(?:\\(?:u005c)?|%5c|&#92;|&#x5c;|&bsol;){{{count},}}+"


def _character(character: str, after_backslash: bool) -> str:
    # Escapes of upper and lower case differ, and so do those of typographic variants.
    forms = {
        form
        for sign in typographic_variants(character)
        for form in (sign, sign.lower(), sign.upper())
    }
    cases = sorted(form for form in forms if len(form) == 1)
    units = [c.encode("utf-16-be", "surrogatepass") for c in cases]
    hexes = [[unit[at : at + 2].hex() for at in range(0, len(unit), 2)] for unit in units]
    escaped = ["u" + f"{_BACKSLASHES}u".join(parts) for parts in hexes]
    data = [c.encode("utf-8", "surrogatepass") for c in cases]
    # Source code escapes bytes, or Latin-1 characters.
    codes = [*data, *(c.encode("latin-1") for c in cases if "\x7f" < c < "\u0100")]
    escaped += ["x" + f"{_BACKSLASHES}x".join(f"{b:02x}" for b in code) for code in codes]
    encoded = [_PERCENT.join(f"{b:02x}" for b in code) for code in data]
    decimal = "|".join(str(ord(c)) for c in cases)
    hexadecimal = "|".join(f"{ord(c):x}" for c in cases)
    entities = [
        rf"#0{{0,4}}(?:{decimal});",
        rf"#x0{{0,4}}(?:{hexadecimal});",
        *_entity_patterns(cases),
    ]
    ways = "|".join(
        [
            f"[{''.join(map(re.escape, typographic_variants(character)))}]",
            f"{_PERCENT}(?:{'|'.join(encoded)})",
            f"{_AND}(?:{'|'.join(entities)})",
        ]
    )
    if character in string.punctuation:
        # A quote in nested JSON has several backslashes before it, and Markdown may escape any
        # punctuation.
        return rf"(?:{_BACKSLASHES})?(?:{ways}|(?<=\\)(?:{'|'.join(escaped)}))"
    escape = _BACKSLASHES_OR_PRECEDING if after_backslash else _BACKSLASHES
    return f"(?:{ways}|{escape}(?:{'|'.join(escaped)}))"


def _entity_patterns(cases: list[str]) -> list[str]:
    return sorted(re.escape(name) for case in cases for name in _ENTITY_NAMES.get(case, ()))


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
