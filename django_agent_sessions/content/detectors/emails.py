"""E-mail addresses."""

from __future__ import annotations

import re
from collections.abc import Iterator

from django.utils.translation import gettext_lazy as _

# Letters of scripts that separate words with spaces. In Chinese or Japanese the word before an
# address would be matched as a part of it, so other letters are tried second.
_SPACED = r"0-9A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u0370-\u052f"
_ANY = r"\w"
# Read backwards from the @, 64 characters at most (RFC 5321, 4.5.3.1).
_LOCAL = [re.compile(rf"[{letters}_.+'\-]{{1,64}}+") for letters in (_SPACED, _ANY)]
_DOMAIN = [
    re.compile(
        rf"(?:[{start}](?:[{inner}\-]{{0,61}}[{inner}])?\.){{1,9}}"
        rf"(?:xn--[0-9A-Za-z\-]{{2,59}}|[{tld}]{{2,24}})(?![{inner}])"
    )
    for start, inner, tld in (
        (_SPACED, _SPACED, r"A-Za-z\u0370-\u052f"),
        (r"^\W_", r"^\W_", r"^\W\d_"),
    )
]
# The @ of an address in a query string.
_AT = re.compile("@|%40")
_FILE = re.compile(
    r"(?i:png|jpe?g|gif|svg|webp|bmp|ico|avif|pdf|[cm]?jsx?|tsx|s?css|less|html?|json|xml|ya?ml|txt|"
    r"csv|log|lock|conf|cfg|ini|toml|java|class|jar|exe|dll|tar|tgz|gz|whl|mp[34]|wav|docx|xlsx|"
    r"pptx|service|socket|timer|target|mount)"
)
_COMMON = re.compile(r"(?i:[a-z]{2}|com|net|org|edu|gov|mil|info|biz|dev|app|cloud)")
_USER_INFO = re.compile(r"[^\s/@\"'<>]*//:")


class Email:
    """E-mail addresses, also with letters beyond ASCII, and with ``%40`` for the ``@``."""

    name = "email"
    label = _("e-mail address")

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        if "@" not in text and "%40" not in text:
            return
        for at in _AT.finditer(text):
            end = _domain_end(text, at.end())
            start = _local_start(text, at.start()) if end else None
            if end and start is not None and not _is_user_info(text, start):
                yield start, end


def _domain_end(text: str, start: int) -> int | None:
    for pattern in _DOMAIN:
        if match := pattern.match(text, start):
            return None if _is_code(text, match) else match.end()
    return None


def _is_code(text: str, domain: re.Match[str]) -> bool:
    """Return whether a match is a file (``logo@2x.png``) or a matrix product (``w@x.mean()``)."""
    last = domain[0].rpartition(".")[2]
    if text.startswith("(", domain.end()):
        return not _COMMON.fullmatch(last)
    return _FILE.fullmatch(last) is not None


def _local_start(text: str, at: int) -> int | None:
    before = text[max(0, at - 64) : at][::-1]
    for pattern in _LOCAL:
        if match := pattern.match(before):
            local = match[0].rstrip("'.+-")
            start = at - len(local)
            # `@ada@example.social` is a handle, `git@example.com:` a shared account.
            excluded = not local or local == "tig" or text[start - 1 : start] == "@"
            return None if excluded else start
    return None


def _is_user_info(text: str, start: int) -> bool:
    """Return whether a match begins in the user info of ``https://ada:secret@example.com``."""
    return _USER_INFO.match(text[max(0, start - 256) : start][::-1]) is not None
