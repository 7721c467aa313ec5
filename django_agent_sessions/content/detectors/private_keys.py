"""Private keys in text formats."""

from __future__ import annotations

import re
from collections.abc import Iterator

from django.utils.translation import gettext_lazy as _

_LITERAL = "BEGIN "
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
_LONGEST = 64 * 1024


class PrivateKey:
    """PEM, OpenSSH and OpenPGP blocks of every type, including truncated ones."""

    name = "private_key"
    label = _("private key")

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        position = text.find(_LITERAL)
        while position >= 0:
            match = _BEGIN.match(text, max(0, position - 5))
            end = _end(text, match) if match else None
            if match and end:
                yield match.start(), end
            position = text.find(_LITERAL, end or position + 1)


def _end(text: str, begin: re.Match[str]) -> int | None:
    """Return the end of the block, or None if it has no key: "begins with -----BEGIN"."""
    hyphens = text.find("----", begin.end(), begin.end() + _LONGEST)
    closing = f"{begin['line']}END {begin['label']}{begin['line'][::-1]}"
    if hyphens >= 0 and text.startswith(closing, hyphens):
        key = _MATERIAL.search(text, begin.end(), hyphens)
        return hyphens + len(closing) if key else None
    body = _BODY.match(text, begin.end())
    if body and _MATERIAL.search(text, body.start(), body.end()):
        return body.end()
    return None
