"""How content is stored: as plain text, or sealed by a codec that knows the row and the column.

A codec binds a stored text to its row and column, so that a text that was moved to another row or
column cannot be opened. Every content column is opened and sealed here, so that a codec needs no
other place. Without one, content is stored as it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from uuid import UUID


class Codec(ABC):
    """Seals texts before they are stored, and opens them after they were read."""

    @abstractmethod
    def seal(self, row: UUID, column: str, text: str) -> str:
        """Return the text to store. ``column`` is ``"<table>.<column>"``."""

    @abstractmethod
    def open(self, row: UUID, column: str, stored: str) -> str:
        """Return the sealed text; raise ValueError if it was sealed for another row or column."""


def install(codec: Codec | None) -> Codec | None:
    """Store content with a codec from now on, or as plain text; return the previous codec."""
    global _codec
    previous, _codec = _codec, codec
    return previous


def is_plain() -> bool:
    """Return whether content is stored as it is."""
    return _codec is None


def seal(row: UUID, column: str, text: str) -> str:
    """Return the text to store in a column of a row."""
    return text if _codec is None else _codec.seal(row, column, text)


def seal_bytes(row: UUID, column: str, data: bytes) -> bytes:
    """Return the bytes to store in a column of a row."""
    return data if _codec is None else _codec.seal(row, column, data.decode("latin-1")).encode()


def open_bytes(row: UUID, column: str, stored: bytes) -> bytes:
    """Return the bytes of a column; raise ValueError if they cannot be opened."""
    return stored if _codec is None else _codec.open(row, column, stored.decode()).encode("latin-1")


def open_selected(selected: str) -> str:
    """Return the text of a column that was selected with its row; raise ValueError if it is not.

    With a codec, a query selects ``<key>/<column>/<stored text>`` instead of the column: see
    ``models.stored_text``.
    """
    if _codec is None:
        return selected
    row, column, stored = selected.split(SEPARATOR, 2)
    key = UUID(row)
    *others, last = column.split(_OR)
    for other in others:
        try:
            return _codec.open(key, other, stored)
        except ValueError:
            continue
    return _codec.open(key, last, stored)


def stored_part(selected: str) -> str:
    """Return the stored text of a column that was selected with its row."""
    return selected if _codec is None else selected.split(SEPARATOR, 2)[-1]


def either(*columns: str) -> str:
    """Return the name of a column whose texts may have been sealed for one of several."""
    return _OR.join(columns)


SEPARATOR = "/"
_OR = "|"
_codec: Codec | None = None
