"""Text that is valid in all database columns, indexes and pages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from .parts import Part, PartKind

TEXT_CAP = 100_000
"""The maximal length of a message's text for lists and search, in characters."""

_INVALID = re.compile("[\x00\ud800-\udfff]")
_EXCLUDED = frozenset({PartKind.REASONING, PartKind.UNKNOWN})


def displayable(text: str) -> str:
    """Replace characters that are invalid in databases, responses and pages.

    A payload may contain NUL, which text columns reject, and lone surrogates, which UTF-8 cannot
    encode.

    Args:
        text: Any text.

    Returns:
        The text with each of them replaced by U+FFFD; its length does not change.
    """
    if text.isascii() and "\x00" not in text:
        return text
    return _INVALID.sub("\ufffd", text)


def join_searchable_text(texts: Iterable[str]) -> str:
    """Join the texts of a message for its text column, up to ``TEXT_CAP`` characters."""
    joined: list[str] = []
    remaining = TEXT_CAP
    for text in texts:
        if text:
            joined.append(text[:remaining])
            remaining -= len(text) + 1
            if remaining <= 0:
                break
    return displayable("\n".join(joined))


def readable_texts(parts: Iterable[Part]) -> Iterator[str]:
    """Yield the texts of the text column: those of all parts but reasoning and unknown ones."""
    for part in parts:
        if part.kind not in _EXCLUDED:
            yield part.text
