"""Keys, tokens and passwords."""

from __future__ import annotations

import re
from collections.abc import Iterator

from django.utils.translation import gettext_lazy as _

from .key_forms import FORMS, MIDDLES, WITHIN
from .named_secrets import named_secrets, passwords_in_urls

# The secret that belongs to an access key of AWS has no form of its own, but it stands near.
_AWS_SECRET = re.compile(r"(?<![0-9A-Za-z+/=_\-])[0-9A-Za-z+/]{40}(?![0-9A-Za-z+/=_\-])")
_AWS_STARTS = ("AKIA", "ASIA")
_NEAR = 200
_LEAST_CHARACTERS = 6
_PLACEHOLDER = re.compile(r"(?:your|YOUR)[_-]|[xX]{8}")


class ApiKey:
    """Keys of known providers, values of names such as ``api_key``, passwords in addresses."""

    name = "api_key"
    label = _("key, token or password")

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """Finds the keys."""
        yield from _of_providers(text)
        yield from _with_middles(text)
        yield from _within(text)
        yield from passwords_in_urls(text)
        yield from named_secrets(text)


def _of_providers(text: str) -> Iterator[tuple[int, int]]:
    for form in FORMS:
        position = text.find(form.literal)
        while position >= 0:
            match = form.pattern.match(text, position)
            if match and _is_drawn(match[0][len(form.literal) :]):
                yield match.span()
                position = match.end()
                if form.literal in _AWS_STARTS:
                    yield from _aws_secret(text, position)
            else:
                position += len(form.literal)
            position = text.find(form.literal, position)


def _aws_secret(text: str, position: int) -> Iterator[tuple[int, int]]:
    for match in _AWS_SECRET.finditer(text, position, position + _NEAR):
        secret = match[0]
        # A hash is of one case. What ends at the end of the window may go on behind it.
        if _is_mixed(secret) and _AWS_SECRET.match(text, match.start()):
            yield match.span()
            return


def _with_middles(text: str) -> Iterator[tuple[int, int]]:
    for literal, before, pattern in MIDDLES:
        position = text.find(literal)
        while position >= 0:
            for start in range(max(0, position - before), position):
                if match := pattern.match(text, start):
                    yield match.span()
                    break
            position = text.find(literal, position + len(literal))


def _within(text: str) -> Iterator[tuple[int, int]]:
    for within in WITHIN:
        position = text.find(within.literal)
        while position >= 0:
            if match := within.pattern.match(text, position):
                yield match.span("key")
            position = text.find(within.literal, position + len(within.literal))


def _is_drawn(key: str) -> bool:
    """Tells what a machine drew from words: ``sk-ant-put-it-here-when-you-have-it``."""
    drawn = any(map(str.isdigit, key)) or _is_mixed(key) or key.isupper()
    return drawn and len(set(key)) >= _LEAST_CHARACTERS and not _PLACEHOLDER.search(key)


def _is_mixed(key: str) -> bool:
    return key.lower() != key and key.upper() != key
