r"""Escapes of characters: JSON, source code, URLs, HTML, quoted-printable, tag characters.

Each function replaces every escape by its character, in linear time. Text that is escaped more than
once is decoded as often; several backslashes in a row are decoded at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from html.entities import html5

from django_agent_sessions.content.decoded_text import DecodedText

_HEX = "[0-9a-fA-F]"
_MAX_CODE = 0x10FFFF
_UNKNOWN = "\ufffd"


def _bytes(prefix: str) -> str:
    """Return a pattern for one UTF-8 character, or one byte, in hexadecimal digits."""
    following = f"{prefix}[89abAB]{_HEX}"
    return (
        f"{prefix}(?:[cC][2-9a-fA-F]|[dD]{_HEX}){following}|{prefix}[eE]{_HEX}(?:{following}){{2}}"
        f"|{prefix}[fF][0-4](?:{following}){{3}}|{prefix}{_HEX}{{2}}"
    )


_OCTAL_REST = r"\\+2[0-7]{2}"
_CODES = (
    rf"u\{{0{{0,8}}{_HEX}{{1,6}}\}}|u[dD][89abAB]{_HEX}{{2}}\\+u[dD][c-fC-F]{_HEX}{{2}}"
    rf"|u{_HEX}{{4}}|U{_HEX}{{8}}|x\{{0{{0,8}}{_HEX}{{1,6}}\}}"
    rf"|{_bytes('x').replace('x[89', chr(92) * 2 + '+x[89')}"
    rf"|3[0-3][0-7]{_OCTAL_REST}|34[0-7](?:{_OCTAL_REST}){{2}}|35[0-7](?:{_OCTAL_REST}){{2}}"
    rf"|36[0-7](?:{_OCTAL_REST}){{3}}|[0-3][0-7]{{2}}|[0-7]{{1,2}}"
    r"|\r?\n|[nrtbfv]|[!-/:-@\[\]^-`{-~]"
)
# From the first backslash of a run only, so that a long run takes linear time.
_BACKSLASHES = rf"(?P<backslashes>(?<!\\)\\++(?:{_CODES})?)"
_PERCENT = f"(?P<percent>{_bytes('%')})"
_ENTITY = (
    r"(?P<entity>&(?:#[xX]0{0,8}[0-9a-fA-F]{1,6}|#0{0,8}[0-9]{1,7}|[A-Za-z][A-Za-z0-9]{1,31});)"
)
# Invisible copies of ASCII: tag characters, and variation selectors as bytes.
_TAG = r"(?P<tag>[\U000e0020-\U000e007e\U000e0110-\U000e01ef])"

_MARKUP = re.compile(f"{_PERCENT}|{_ENTITY}|{_TAG}")
_ANY = re.compile(f"{_BACKSLASHES}|{_PERCENT}|{_ENTITY}|{_TAG}")
_QUOTED_PRINTABLE = re.compile(rf"(?P<quoted>{_bytes('=')}|=[ \t]*\r?\n)")
_MAYBE_QUOTED = re.compile(r"=(?:[0-9A-Fa-f]{2}|[ \t]*\r?\n)")
_MAYBE_MARKUP = re.compile(r"[%&\U000e0020-\U000e01ef]")
_LETTERS = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", "v": "\v", "\n": "", "\r\n": ""}
_HEX_PAIR = re.compile(f"[%=x]({_HEX}{{2}})")
_OCTAL = re.compile(r"[0-7]{3}")

MAYBE_ESCAPED = re.compile(r"[\\=%&\U000e0020-\U000e01ef]")
"""The characters with which escapes begin, of any kind."""

MOST_PASSES = 4
"""How often a text is decoded that is escaped more than once."""


def decode_escapes(text: str) -> DecodedText | None:
    """Decode all escapes except those of quoted-printable; None if there is none."""
    if "\\" not in text and not _MAYBE_MARKUP.search(text):
        return None
    return _decode(text, _ANY)


def decode_markup(text: str) -> DecodedText | None:
    r"""Decode as above, but not backslashes: in ``C:\users\nadine%40`` they escape nothing."""
    if "\\" not in text or not _MAYBE_MARKUP.search(text):
        return None
    return _decode(text, _MARKUP)


def decode_quoted_printable(text: str) -> DecodedText | None:
    """Decode quoted-printable; None if there is none."""
    return _decode(text, _QUOTED_PRINTABLE) if _MAYBE_QUOTED.search(text) else None


def _decode(text: str, pattern: re.Pattern[str]) -> DecodedText | None:
    decoded = DecodedText(text, pattern, _character)
    return None if decoded.text == text else decoded


def _character(match: re.Match[str]) -> str:
    return _DECODERS[match.lastgroup or ""](match[0])


def _decode_backslashes(escape: str) -> str:
    code = escape.lstrip("\\")
    # A backslash that escapes nothing is dropped, so that it does not matter how often it is
    # escaped itself.
    if not code or code in _LETTERS or not code[0].isalnum():
        return _LETTERS.get(code, code)
    if code[0] in "uUx" and "{" in code:
        return _chr(int(code[2:-1], 16))
    if code[0] == "x":
        return _utf8(bytes.fromhex("".join(_HEX_PAIR.findall(code))))
    if code[0] in "uU":
        codes = [int(part.lstrip("uU"), 16) for part in code.split("\\") if part]
        if len(codes) == 2:
            return chr(0x10000 + ((codes[0] & 0x3FF) << 10) + (codes[1] & 0x3FF))
        return _chr(codes[0])
    if code[0].isdigit():
        if len(code) < 3:
            return chr(int(code, 8))
        return _utf8(bytes(int(part, 8) for part in _OCTAL.findall(code)))
    return code


def _decode_bytes(escape: str) -> str:
    pairs = _HEX_PAIR.findall(escape)
    # Without pairs it is a soft line break.
    return _utf8(bytes.fromhex("".join(pairs))) if pairs else ""


def _decode_entity(entity: str) -> str:
    name = entity[1:]
    if name[0] != "#":
        return html5.get(name, entity)
    hexadecimal = name[1] in "xX"
    return _chr(int(name[2:-1], 16) if hexadecimal else int(name[1:-1]))


def _decode_tag(character: str) -> str:
    code = ord(character)
    # A tag is the ASCII character plus 0xE0000; a variation selector is a byte, from 16 on.
    return chr(code - 0xE0000 if code < 0xE0100 else code - 0xE0100 + 16)


_DECODERS: dict[str, Callable[[str], str]] = {
    "backslashes": _decode_backslashes,
    "percent": _decode_bytes,
    "quoted": _decode_bytes,
    "entity": _decode_entity,
    "tag": _decode_tag,
}


def _chr(code: int) -> str:
    return chr(code) if code <= _MAX_CODE else _UNKNOWN


def _utf8(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        # One byte of a text in Latin-1.
        return data.decode("latin-1")
