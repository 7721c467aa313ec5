"""Secrets of any format, recognized by the name before them: ``api_key = …``."""

from __future__ import annotations

import base64
import math
import re
from collections import Counter
from collections.abc import Iterator

# Last words of names, and whether their values are random or chosen by a person.
_NOUNS = {
    **dict.fromkeys(("key", "token", "secret", "credential"), True),
    **dict.fromkeys(("password", "passwd", "passphrase", "passcode", "passwort", "pwd"), False),
}
# Words before "key"; many keys are no secrets.
_KEY_OF = re.compile(
    r"(?i:api|access|secret|private|auth|encryption|signing|master|account|subscription|app|client|"
    r"consumer|webhook|service)[_ \-]?\Z"
)
# `max_tokens`, `tokenizer` and `password_hash_rounds` do not match: their names continue.
_VALUE = re.compile(
    r"(?i:[_-]?(?:value|id|1|2|confirm))?(?:[\"'`]|\*\*)?"
    r"(?:\s{0,3}(?::=|=>|[:=])|\s(?i:is|was)\s)\s{0,3}(?:[a-zA-Z]?(?P<quote>[\"'`]))?"
    r"(?P<key>(?(quote)[^\"'`\s]{1,256}|[^\"'`\s,;&<>(){}\[\]|\\]{1,256}))"
)
_HEADERS = ("authorization", "api-key")
_HEADER_VALUE = re.compile(
    r"[\"'`]?\s{0,3}[:=,]\s{0,3}[\"'`]?"
    r"(?P<scheme>(?i:bearer|basic|token|apikey|key|bot)\s{1,3})?"
    r"(?P<key>[0-9A-Za-z\-._~+/|]{8,4096}+={0,2})"
)
_BEARER = re.compile(r"\s{1,3}(?P<key>[0-9A-Za-z\-._~+/|]{16,4096}+={0,2})")
_URL = re.compile(
    r"://(?P<user>[^\s/@:\"'`<>]{0,128}):(?P<key>[^\s/\"'`<>]{1,256})@(?=[0-9A-Za-z\[_\-])"
)
_SCHEME = re.compile(r"[0-9A-Za-z+.\-]")
# Placeholders of secrets in examples and templates.
_TEMPLATE = re.compile(
    r"\$\{|\$\(|\$[A-Z_]+$|[{<\[]|%\(|%[A-Z_]+%$|\*+$|#+$|\.\.|"
    r"(?i:(?:none|null|true|false|undefined|required|optional)$)"
)
_PLACEHOLDER = re.compile(
    r"(?<![0-9A-Za-z])(?:your|YOUR|my|MY)[_-]|(?i:example|placeholder|change[_-]?me|redacted|x{8})|"
    r"\*{3}|\.\.\.|\u2026"
)
_REFERENCE = re.compile(
    r"[A-Za-z_]{1,24}(?:\.[A-Za-z_]\w{0,23})+$|[A-Za-z_]\w*(?:->|::)|[a-z]+://|"
    r"(?:\.{0,2}/[a-z0-9_.\-]+){2,}$|[a-z]+(?:_[a-z0-9]+)+$|[A-Z]+(?:_[A-Z0-9]+)+$"
)
_SIGN = re.compile(r"[0-9!@#$%^&*+=?~]")
_ASCII_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}
_SHORTEST_RANDOM = 16
_SHORTEST_CHOSEN = 6
# Bits per character: hexadecimal has almost 4, words have less than this.
_LEAST_ENTROPY = 3.0


def named_secrets(text: str) -> Iterator[tuple[int, int]]:
    """Yield the values of names of secrets, and the credentials in headers."""
    low = _lower(text)
    for noun, random in _NOUNS.items():
        for position in _positions(low, noun):
            if noun == "key" and not _KEY_OF.search(text[max(0, position - 15) : position]):
                continue
            if match := _VALUE.match(text, position + len(noun)):
                value = match["key"] if match["quote"] else match["key"].rstrip(".")
                if _is_random(value) if random else _is_chosen(value, bool(match["quote"])):
                    yield match.start("key"), match.start("key") + len(value)
    yield from _find_in_headers(text, low)


def _find_in_headers(text: str, low: str) -> Iterator[tuple[int, int]]:
    for header in _HEADERS:
        for position in _positions(low, header):
            if match := _HEADER_VALUE.match(text, position + len(header)):
                value = match["key"].rstrip(".")
                scheme = match["scheme"]
                if _is_credential(scheme, value) if scheme else _is_random(value):
                    yield match.start("key"), match.start("key") + len(value)
    for position in _positions(low, "bearer"):
        if match := _BEARER.match(text, position + len("bearer")):
            value = match["key"].rstrip(".")
            if _is_random(value):
                yield match.start("key"), match.start("key") + len(value)


def _lower(text: str) -> str:
    """Return the text in lower case without changing positions: some characters become two."""
    low = text.lower()
    return low if len(low) == len(text) else text.translate(_ASCII_LOWER)


def _positions(text: str, literal: str) -> Iterator[int]:
    position = text.find(literal)
    while position >= 0:
        yield position
        position = text.find(literal, position + len(literal))


def passwords_in_urls(text: str) -> Iterator[tuple[int, int]]:
    """Yield passwords such as the one in ``postgres://ada:secret@db.example.com``."""
    for position in _positions(text, "://"):
        match = _URL.match(text, position)
        if match and _SCHEME.match(text, position - 1) and not _TEMPLATE.match(match["key"]):
            yield match.span("key")


def _is_random(value: str) -> bool:
    return (
        len(value) >= _SHORTEST_RANDOM
        and any(map(str.isdigit, value))
        and any(map(str.isalpha, value))
        and entropy(value) >= _LEAST_ENTROPY
        and not _is_placeholder(value)
    )


def _is_chosen(value: str, quoted: bool) -> bool:
    """Return whether a value may be a password; unquoted, it must not look like a name."""
    letters = sum(map(str.isalpha, value))
    if len(value) < _SHORTEST_CHOSEN or not 0 < letters < len(value):
        return False
    if quoted:
        return not (_TEMPLATE.match(value) or _PLACEHOLDER.search(value))
    return bool(_SIGN.search(value.rstrip("!?"))) and not _is_placeholder(value)


def _is_credential(scheme: str, value: str) -> bool:
    """Return whether a value may be a token, or a name and a password after ``Basic``."""
    if scheme.strip().lower() == "basic":
        try:
            return b":" in base64.b64decode(value, validate=True)
        except ValueError:
            return False
    return any(map(str.isdigit, value)) and not _is_placeholder(value)


def _is_placeholder(value: str) -> bool:
    return bool(_TEMPLATE.match(value) or _PLACEHOLDER.search(value) or _REFERENCE.match(value))


def entropy(text: str) -> float:
    """Return the Shannon entropy of a text in bits per character."""
    length = len(text)
    return -sum(n / length * math.log2(n / length) for n in Counter(text).values())
