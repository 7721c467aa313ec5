"""A part of a file, read piece by piece, so that the file is never whole in memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import IO

PIECE = 64 * 1024
"""Bytes of the largest piece."""


def part_of(file: IO[bytes], start: int, stop: int | None) -> Pieces:
    """Reads a part of a file that is open."""
    file.seek(0, os.SEEK_END)
    size = file.tell()
    file.seek(start)
    length = (size if stop is None else min(stop, size)) - start
    return Pieces(size, max(0, length), file.read, file.close)


class Pieces:
    """What is read of a file, in order. It is closed at its end, after an error, or by ``close``."""

    def __init__(
        self, size: int, length: int, read: Callable[[int], bytes], close: Callable[[], object]
    ) -> None:
        self.size = size
        self._left = length
        self._read = read
        self._close = close
        # Now: some storages notice only while reading that a file is not there.
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
        """Closes the file; more than once is fine."""
        self._left = 0
        self._close()

    def _next(self) -> bytes:
        if not self._left:
            return b""
        try:
            piece = self._read(min(PIECE, self._left))
        except BaseException:
            self.close()
            raise
        # A file that is shorter than it was ends here.
        self._left = self._left - len(piece) if piece else 0
        return piece
