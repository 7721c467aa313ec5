"""Reading a part of a file in pieces, so that the whole file is never in memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import IO

PIECE = 64 * 1024
"""The maximal size of a piece in bytes."""


def open_part(file: IO[bytes], start: int, stop: int | None) -> Pieces:
    """Return the pieces of a part of an open file."""
    file.seek(0, os.SEEK_END)
    size = file.tell()
    file.seek(start)
    length = (size if stop is None else min(stop, size)) - start
    return Pieces(size, max(0, length), file.read, file.close)


class Pieces:
    """The pieces of a file in order; it is closed at the end, on errors, and by ``close``."""

    def __init__(
        self, size: int, length: int, read: Callable[[int], bytes], close: Callable[[], object]
    ) -> None:
        self.size = size
        self._remaining = length
        self._read = read
        self._close = close
        # Read now, because some storages raise for a missing file only on reading.
        self._first: bytes | None = self._next()

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        piece, self._first = self._first or self._next(), None
        if not piece:
            self.close()
            raise StopIteration
        return piece

    def close(self) -> None:
        """Close the file; may be called repeatedly."""
        self._remaining = 0
        self._close()

    def _next(self) -> bytes:
        if not self._remaining:
            return b""
        try:
            piece = self._read(min(PIECE, self._remaining))
        except BaseException:
            self.close()
            raise
        # The file was truncated.
        self._remaining = self._remaining - len(piece) if piece else 0
        return piece
