"""The spellings of a string: in any case, composed or not, escaped for JSON, addresses and pages.

None of the patterns takes a time that grows with the square of a text: whatever repeats is bounded
or taken as one unit.
"""

from __future__ import annotations

import html
import re
import unicodedata
from html.entities import codepoint2name

MAYBE_SPELLED = re.compile(r"[\\%&+]")
"""What every text has that spells a letter in another way."""

# As many backslashes as JSON four levels deep has before a quote. Without an end to their number,
# a long row of them would take a time that grows with its square.
_BACKSLASHES = r"\\{1,16}"
# Behind backslashes that were looked for, which take all there are: those of the escape as well.
_BACKSLASHES_OR_BEHIND = rf"(?:{_BACKSLASHES}|(?<=\\))"
_NO_BACKSLASH = r"(?<!\\)(?<!\\u005c)(?<!%5c)(?<!&#92;)(?<!&#x5c;)(?<!&bsol;)"
"""A row of them is looked at from its beginning only."""
_RUN = re.compile(r"\\+|[^\\]")


def forms(text: str) -> set[str]:
    """Spells a text in the ways that ignoring the case alone does not make equal.

    Args:
        text: The text.

    Returns:
        Its forms, the text itself among them.
    """
    cased = {text, text.upper(), text.lower(), text.casefold()}
    composed = {unicodedata.normalize(form, one) for one in cased for form in ("NFC", "NFD")}
    return {form.lower() for form in composed} | {text}


def plain(text: str) -> str:
    """Makes a pattern for a text without escapes.

    Args:
        text: One form of it.

    Returns:
        The pattern, to be used in any case.
    """
    return r"\s+".join(re.escape(word) for word in text.split())


def spelled(text: str) -> str:
    """Makes a pattern for a text with escapes of any kind.

    Args:
        text: One form of it.

    Returns:
        The pattern, to be used in any case.
    """
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
        rf"(?:\s|{escape}(?:[nrtfv]|u00(?:09|0[ad]|20|a0))|%20|%0[9ad]|%c2%a0|\+|&nbsp;"
        r"|&#0{0,4}(?:9|10|13|32|160);|&#x0{0,4}(?:9|a|d|20|a0);)+"
    )


def _backslashes(count: int) -> str:
    # All of a row at once: tried in parts, there would be as many ways as there are splits.
    return rf"(?:\\(?:u005c)?|%5c|&#92;|&#x5c;|&bsol;){{{count},}}+"


def _character(character: str, behind: bool) -> str:
    # Escapes tell an upper letter from a lower one.
    cases = sorted({c for c in (character, character.lower(), character.upper()) if len(c) == 1})
    # A quote inside of JSON inside of JSON has several backslashes before it.
    before = rf"(?:{_BACKSLASHES})?" if character in "\"/'" else ""
    escape = _BACKSLASHES_OR_BEHIND if behind else _BACKSLASHES
    units = [c.encode("utf-16-be", "surrogatepass") for c in cases]
    hexes = [[unit[at : at + 2].hex() for at in range(0, len(unit), 2)] for unit in units]
    escaped = [f"{escape}u" + f"{_BACKSLASHES}u".join(parts) for parts in hexes]
    encoded = ["".join(f"%{b:02x}" for b in c.encode("utf-8", "surrogatepass")) for c in cases]
    decimal = "|".join(str(ord(c)) for c in cases)
    hexadecimal = "|".join(f"{ord(c):x}" for c in cases)
    entities = [rf"#0{{0,4}}(?:{decimal});", rf"#x0{{0,4}}(?:{hexadecimal});", *_named(cases)]
    ways = [re.escape(character), *encoded, f"&(?:{'|'.join(entities)})"]
    return f"(?:{before}(?:{'|'.join(ways)})|{'|'.join(escaped)})"


def _named(cases: list[str]) -> list[str]:
    names = {html.escape(c)[1:] for c in cases if html.escape(c) != c}
    names |= {f"{codepoint2name[ord(c)]};" for c in cases if ord(c) in codepoint2name}
    names |= {"apos;"} if "'" in cases else set()
    return sorted(map(re.escape, names))
