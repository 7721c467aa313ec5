"""Text that any database column, index and page can carry."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from .parts import Part, PartKind

TEXT_CAP = 100_000
"""The most characters of one message that are kept for lists and search."""

_UNCARRIABLE = re.compile("[\x00\ud800-\udfff]")
_UNREAD = frozenset({PartKind.REASONING, PartKind.UNKNOWN})


def displayable(text: str) -> str:
    """Replaces what databases, responses and pages cannot carry.

    A payload may hold NUL, which text columns refuse, and lone surrogates, which are not UTF-8.

    Args:
        text: Any text.

    Returns:
        The text with each of them as U+FFFD, so as long as before.
    """
    if text.isascii() and "\x00" not in text:
        return text
    return _UNCARRIABLE.sub("\ufffd", text)


def searchable(texts: Iterable[str]) -> str:
    """Joins the texts of a message for its text column."""
    taken: list[str] = []
    room = TEXT_CAP
    for text in texts:
        if text:
            taken.append(text[:room])
            room -= len(text) + 1
            if room <= 0:
                break
    return displayable("\n".join(taken))


def readable(parts: Iterable[Part]) -> Iterator[str]:
    """Picks the texts that belong into the text column."""
    for part in parts:
        if part.kind not in _UNREAD:
            yield part.text
