"""The spellings of a string: in any case, composed or not, escaped for JSON, addresses and pages.

None of the patterns takes a time that grows with the square of a text: whatever repeats is bounded
or taken as one unit.
"""

from __future__ import annotations

import re
import string
import unicodedata
from html.entities import html5

from .folding import alike

MAYBE_SPELLED = re.compile(r"[\\%&+]")
"""What every text has that spells a letter in another way."""

# As many backslashes as JSON four levels deep has before a quote. Without an end to their number,
# a long row of them would take a time that grows with its square. No escape begins within them.
_BACKSLASHES = r"\\{1,16}+"
# Behind backslashes that were looked for, which take all there are: those of the escape as well.
_BACKSLASHES_OR_BEHIND = rf"(?:{_BACKSLASHES}|(?<=\\))"
_NO_BACKSLASH = r"(?<!\\)(?<!\\u005c)(?<!%5c)(?<!&#92;)(?<!&#x5c;)(?<!&bsol;)"
"""A row of them is looked at from its beginning only."""
_RUN = re.compile(r"\\+|[^\\]")
# An address or page that is quoted in another one has its own escapes escaped.
_PERCENT = "%(?:25){0,3}"
_AND = "&(?:amp;){0,3}"
_NAMES: dict[str, list[str]] = {}
for _name, _said in html5.items():
    if _name.endswith(";"):
        _NAMES.setdefault(_said, []).append(_name)
GAP = (
    rf"(?:[\s\-.()/+_]|{_BACKSLASHES}(?:[nrt]|u00(?:20|a0))|{_PERCENT}(?:2[089bdf]|0[9ad])"
    rf"|{_AND}(?:nbsp;|#32;|#160;)){{0,2}}"
)
"""What people put between the groups of a number, or what it is escaped as."""


def forms(text: str) -> set[str]:
    """Spells a text in the ways that ignoring the case alone does not make equal."""
    cased = {text, text.upper(), text.lower(), text.casefold()}
    composed = {unicodedata.normalize(form, one) for one in cased for form in ("NFC", "NFD")}
    return {form.lower() for form in composed} | {text}


def plain(text: str) -> str:
    """Makes a pattern for a text without escapes."""
    return r"\s+".join(re.escape(word) for word in text.split())


def unescaped(text: str) -> str:
    """Makes a pattern for a text whose escapes are undone, all but those of backslashes."""
    return re.sub(r"(?:\\\\)+", lambda row: f"(?:{row[0]}){{1,16}}+", plain(text))


def spelled(text: str) -> str:
    """Makes a pattern for a text with escapes of any kind."""
    pieces: list[str] = []
    behind = False
    for at, word in enumerate(text.split()):
        if at:
            pieces.append(_space(behind))
            behind = False
        for unit in _RUN.findall(word):
            pieces.append(_backslashes(len(unit)) if unit[0] == "\\" else _character(unit, behind))
            behind = unit[0] == "\\"
    return (_NO_BACKSLASH if text.lstrip().startswith("\\") else "") + "".join(pieces)


def _space(behind: bool) -> str:
    escape = _BACKSLASHES_OR_BEHIND if behind else _BACKSLASHES
    return (
        rf"(?:\s|{escape}(?:[nrtfv]|[ux](?:00)?(?:09|0[ad]|20|a0))|{_PERCENT}(?:20|0[9ad])"
        rf"|{_PERCENT}c2{_PERCENT}a0|\+"
        rf"|{_AND}(?:nbsp;|#0{{0,4}}(?:9|10|13|32|160);|#x0{{0,4}}(?:9|a|d|20|a0);))+"
    )


def _backslashes(count: int) -> str:
    # All of a row at once: tried in parts, there would be as many ways as there are splits.
    return rf"(?:\\(?:u005c)?|%5c|&#92;|&#x5c;|&bsol;){{{count},}}+"


def _character(character: str, behind: bool) -> str:
    # Escapes tell an upper letter from a lower one, and a sign in one form from another.
    forms = {form for sign in alike(character) for form in (sign, sign.lower(), sign.upper())}
    cases = sorted(form for form in forms if len(form) == 1)
    units = [c.encode("utf-16-be", "surrogatepass") for c in cases]
    hexes = [[unit[at : at + 2].hex() for at in range(0, len(unit), 2)] for unit in units]
    escaped = ["u" + f"{_BACKSLASHES}u".join(parts) for parts in hexes]
    data = [c.encode("utf-8", "surrogatepass") for c in cases]
    # Source code has bytes, or letters of the first 256.
    codes = [*data, *(c.encode("latin-1") for c in cases if "\x7f" < c < "\u0100")]
    escaped += ["x" + f"{_BACKSLASHES}x".join(f"{b:02x}" for b in code) for code in codes]
    encoded = [_PERCENT.join(f"{b:02x}" for b in code) for code in data]
    decimal = "|".join(str(ord(c)) for c in cases)
    hexadecimal = "|".join(f"{ord(c):x}" for c in cases)
    entities = [rf"#0{{0,4}}(?:{decimal});", rf"#x0{{0,4}}(?:{hexadecimal});", *_named(cases)]
    ways = "|".join(
        [
            f"[{''.join(map(re.escape, alike(character)))}]",
            f"{_PERCENT}(?:{'|'.join(encoded)})",
            f"{_AND}(?:{'|'.join(entities)})",
        ]
    )
    if character in string.punctuation:
        # A quote inside of JSON inside of JSON has several backslashes before it, and Markdown
        # puts one before any sign.
        return rf"(?:{_BACKSLASHES})?(?:{ways}|(?<=\\)(?:{'|'.join(escaped)}))"
    escape = _BACKSLASHES_OR_BEHIND if behind else _BACKSLASHES
    return f"(?:{ways}|{escape}(?:{'|'.join(escaped)}))"


def _named(cases: list[str]) -> list[str]:
    return sorted(re.escape(name) for case in cases for name in _NAMES.get(case, ()))
