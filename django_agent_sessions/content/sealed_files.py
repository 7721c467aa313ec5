"""The form of an encrypted file: a header, and chunks that can be decrypted one by one.

::

    version and key id | nonce, ciphertext and tag of 64 KiB | … | of the rest, at least one byte

The key is also in the row of the binary, whose size and hash are those of the plain content.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from uuid import UUID

HEADER = 22
"""Bytes of the header."""

CHUNK = 64 * 1024
"""Plain bytes of a chunk."""

OVERHEAD = 28
"""Bytes that a chunk has more when it is encrypted."""


class FileCipher(ABC):
    """Encrypts and decrypts the file of one binary."""

    key: UUID
    """Primary key of the data key."""

    @abstractmethod
    def seal(self, data: bytes) -> bytes:
        """Return the encrypted file."""

    @abstractmethod
    def open_header(self, header: bytes) -> None:
        """Raise DecryptionError if a file does not begin as it should."""

    @abstractmethod
    def open_chunk(self, number: int, stored: bytes, *, last: bool) -> bytes:
        """Return a decrypted chunk; raise DecryptionError if that is not possible."""


def stored_size(size: int) -> int:
    """Return the bytes of an encrypted file whose content has this size."""
    return HEADER + size + OVERHEAD * _chunks(size)


def part_of_file(size: int, start: int, stop: int) -> tuple[int, int]:
    """Return which part of the encrypted file has a part of the content."""
    if start >= stop:
        return HEADER, HEADER
    first, last = start // CHUNK, (stop - 1) // CHUNK
    begin = 0 if first == 0 else HEADER + first * (CHUNK + OVERHEAD)
    return begin, min(HEADER + (last + 1) * (CHUNK + OVERHEAD), stored_size(size))


def opened(
    cipher: FileCipher, pieces: Iterable[bytes], size: int, start: int, stop: int
) -> Iterator[bytes]:
    """Yield a part of the content, given the pieces of :func:`part_of_file`, chunk by chunk."""
    number, last = start // CHUNK, _chunks(size) - 1
    skipped = HEADER if number == 0 else 0
    buffer = bytearray()
    for piece in pieces:
        buffer += piece
        if skipped and len(buffer) >= skipped:
            cipher.open_header(bytes(buffer[:skipped]))
            del buffer[:skipped]
            skipped = 0
        while not skipped and number <= last and len(buffer) >= (length := _length(size, number)):
            yield _cut(cipher, number, bytes(buffer[:length]), last, start, stop)
            del buffer[:length]
            number += 1
    if buffer:
        # Truncated: it cannot be decrypted.
        cipher.open_chunk(number, bytes(buffer), last=number == last)


def _cut(cipher: FileCipher, number: int, stored: bytes, last: int, start: int, stop: int) -> bytes:
    chunk = cipher.open_chunk(number, stored, last=number == last)
    first = number * CHUNK
    return chunk[max(0, start - first) : stop - first]


def _chunks(size: int) -> int:
    return max(1, -(-size // CHUNK))


def _length(size: int, number: int) -> int:
    return min(CHUNK, size - number * CHUNK) + OVERHEAD
