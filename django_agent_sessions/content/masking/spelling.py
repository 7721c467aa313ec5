"""Regular expressions for the spellings of a string: case, normalization, JSON, URL, HTML escapes.

No pattern takes quadratic time: each repetition is bounded or possessive.
"""

from __future__ import annotations

import re
import string
import unicodedata
from html.entities import html5

from .folding import typographic_variants

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
