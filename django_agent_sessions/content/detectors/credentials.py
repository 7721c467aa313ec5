"""Keys, tokens, passwords, JSON web tokens and private keys.

Secrets of any format are recognized by the name before them: ``api_key = …``.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections import Counter
from collections.abc import Iterator

from django.utils.translation import gettext_lazy as _

from .key_forms import INFIX_FORMATS, KEY_FORMATS, KEYS_IN_CONTEXT

# The secret of an AWS access key has no distinctive format, but it stands near the key's id.
_AWS_SECRET = re.compile(r"(?<![0-9A-Za-z+/=_\-])[0-9A-Za-z+/]{40}(?![0-9A-Za-z+/=_\-])")
_AWS_STARTS = ("AKIA", "ASIA")
_WINDOW = 200
_LEAST_DISTINCT_CHARACTERS = 6
_KEY_PLACEHOLDER = re.compile(r"(?:your|YOUR)[_-]|[xX]{8}")


class ApiKey:
    """Keys of known providers, values of names such as ``api_key``, passwords in URLs."""

    name = "api_key"
    label = _("key, token or password")

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        yield from _find_provider_keys(text)
        yield from _find_by_infix(text)
        yield from _find_keys_in_context(text)
        yield from passwords_in_urls(text)
        yield from named_secrets(text)


def _find_provider_keys(text: str) -> Iterator[tuple[int, int]]:
    for form in KEY_FORMATS:
        position = text.find(form.literal)
        while position >= 0:
            match = form.pattern.match(text, position)
            if match and _is_random_key(match[0][len(form.literal) :]):
                yield match.span()
                position = match.end()
                if form.literal in _AWS_STARTS:
                    yield from _aws_secret(text, position)
            else:
                position += len(form.literal)
            position = text.find(form.literal, position)


def _aws_secret(text: str, position: int) -> Iterator[tuple[int, int]]:
    for match in _AWS_SECRET.finditer(text, position, position + _WINDOW):
        secret = match[0]
        # A hash has one case. Match again without the window, which may have cut a longer value.
        if _is_mixed(secret) and _AWS_SECRET.match(text, match.start()):
            yield match.span()
            return


def _find_by_infix(text: str) -> Iterator[tuple[int, int]]:
    for literal, max_prefix, pattern in INFIX_FORMATS:
        position = text.find(literal)
        while position >= 0:
            for start in range(max(0, position - max_prefix), position):
                if match := pattern.match(text, start):
                    yield match.span()
                    break
            position = text.find(literal, position + len(literal))


def _find_keys_in_context(text: str) -> Iterator[tuple[int, int]]:
    for context in KEYS_IN_CONTEXT:
        position = text.find(context.literal)
        while position >= 0:
            if match := context.pattern.match(text, position):
                yield match.span("key")
            position = text.find(context.literal, position + len(context.literal))


def _is_random_key(key: str) -> bool:
    """Return whether a key is random and not words: ``sk-ant-put-it-here-when-you-have-it``."""
    random = any(map(str.isdigit, key)) or _is_mixed(key) or key.isupper()
    return (
        random and len(set(key)) >= _LEAST_DISTINCT_CHARACTERS and not _KEY_PLACEHOLDER.search(key)
    )


def _is_mixed(key: str) -> bool:
    return key.lower() != key and key.upper() != key


# --- secrets by their names --------------------------------------------------------------------

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


# --- JSON web tokens ---------------------------------------------------------------------------

# Beginnings of a JSON object in base64: `{"`, `{ `, or `{` and a line break.
_HEADER_STARTS = ("eyJ", "eyA", "ewo", "ewk", "ew0K")
# Signed tokens have three parts (RFC 7515), encrypted ones five (RFC 7516). The signature is empty
# when there is none (RFC 7519, 6).
_TOKEN = re.compile(
    r"(?<![\w-])(?P<header>[\w-]{8,4096}+)\.[\w-]{2,}+\.[\w-]*+(?:\.[\w-]+\.[\w-]+)?", re.ASCII
)


class Jwt:
    """Tokens whose decoded first part is a JSON object with ``alg``."""

    name = "jwt"
    label = _("JSON web token")

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        for start in _HEADER_STARTS:
            position = text.find(start)
            while position >= 0:
                match = _TOKEN.match(text, position)
                if match and _is_header(match["header"]):
                    yield match.span()
                    position = match.end()
                else:
                    position += len(start)
                position = text.find(start, position)


def _is_header(part: str) -> bool:
    try:
        header = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, RecursionError):
        return False
    return isinstance(header, dict) and isinstance(header.get("alg"), str)


# --- private keys ------------------------------------------------------------------------------

_BEGIN_LITERAL = "BEGIN "
# PEM (RFC 7468) and OpenPGP; SSH2 has four hyphens and a space.
_BEGIN = re.compile(
    r"(?P<line>-----|---- )BEGIN (?P<label>[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?)"
    r"(?: ?-{4,5})?"
)
# A truncated key: its headers, its lines, and a last shorter line where the text ends.
_MATERIAL = re.compile(r"[0-9A-Za-z+/=]{16}")
_BODY = re.compile(
    r"(?:\s{0,8}[A-Z][0-9A-Za-z-]{2,20}: [^\n]{0,200}(?=\n))*+"
    r"(?:\s{0,8}[0-9A-Za-z+/]{20,}+={0,2})*+"
    r"(?:\s{0,4}[0-9A-Za-z+/]{1,19}+={0,2}(?=\s*+(?:\Z|[\"'`<])))?"
)
_LONGEST_KEY = 64 * 1024


class PrivateKey:
    """PEM, OpenSSH and OpenPGP blocks of every type, including truncated ones."""

    name = "private_key"
    label = _("private key")

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        position = text.find(_BEGIN_LITERAL)
        while position >= 0:
            match = _BEGIN.match(text, max(0, position - 5))
            end = _end_of_key(text, match) if match else None
            if match and end:
                yield match.start(), end
            position = text.find(_BEGIN_LITERAL, end or position + 1)


def _end_of_key(text: str, begin: re.Match[str]) -> int | None:
    """Return the end of the block, or None if it has no key: "begins with -----BEGIN"."""
    hyphens = text.find("----", begin.end(), begin.end() + _LONGEST_KEY)
    closing = f"{begin['line']}END {begin['label']}{begin['line'][::-1]}"
    if hyphens >= 0 and text.startswith(closing, hyphens):
        key = _MATERIAL.search(text, begin.end(), hyphens)
        return hyphens + len(closing) if key else None
    body = _BODY.match(text, begin.end())
    if body and _MATERIAL.search(text, body.start(), body.end()):
        return body.end()
    return None
