"""Keys, tokens and passwords."""

from __future__ import annotations

import re
from collections.abc import Iterator

from django.utils.translation import gettext_lazy as _

from .key_forms import INFIX_FORMATS, KEY_FORMATS, KEYS_IN_CONTEXT
from .named_secrets import named_secrets, passwords_in_urls

# The secret of an AWS access key has no distinctive format, but it stands near the key's id.
_AWS_SECRET = re.compile(r"(?<![0-9A-Za-z+/=_\-])[0-9A-Za-z+/]{40}(?![0-9A-Za-z+/=_\-])")
_AWS_STARTS = ("AKIA", "ASIA")
_WINDOW = 200
_LEAST_DISTINCT_CHARACTERS = 6
_PLACEHOLDER = re.compile(r"(?:your|YOUR)[_-]|[xX]{8}")


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
            if match and _is_random(match[0][len(form.literal) :]):
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


def _is_random(key: str) -> bool:
    """Return whether a key is random and not words: ``sk-ant-put-it-here-when-you-have-it``."""
    random = any(map(str.isdigit, key)) or _is_mixed(key) or key.isupper()
    return random and len(set(key)) >= _LEAST_DISTINCT_CHARACTERS and not _PLACEHOLDER.search(key)


def _is_mixed(key: str) -> bool:
    return key.lower() != key and key.upper() != key
