"""Reading of a binary in pieces."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

from django_agent_sessions.blobs import file_storage
from django_agent_sessions.content.sealed_files import FileCipher, opened, part_of_file
from django_agent_sessions.exceptions import BlobError, DecryptionError
from django_agent_sessions.models import Blob

from . import blob_files


class Stream:
    """The pieces of a binary or of a part of it; the last piece of a whole one is verified."""

    def __init__(
        self,
        blob: Blob,
        pieces: file_storage.Pieces,
        content: Iterable[bytes],
        *,
        is_whole: bool,
    ) -> None:
        self._blob = blob
        self._pieces = pieces
        self._content = content
        self._iterator = self._verified_pieces() if is_whole else self._read_pieces()
        self.first_piece = next(self._iterator, b"")
        """The first piece, which iteration returns again."""
        self._started = False

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if self._started:
            return next(self._iterator)
        self._started = True
        return self.first_piece

    def close(self) -> None:
        """Close the file; may be called repeatedly."""
        self._pieces.close()

    def _read_pieces(self) -> Iterator[bytes]:
        try:
            yield from self._content
        except DecryptionError as error:
            raise blob_files.undeciphered_error(self._blob, error) from error
        except Exception as error:
            raise blob_files.unreadable_error(self._blob, error) from error

    def _verified_pieces(self) -> Iterator[bytes]:
        """Yield the last piece only after verifying the hash; damaged files end incomplete."""
        digest, last = hashlib.sha256(), b""
        for piece in self._read_pieces():
            digest.update(piece)
            if last:
                yield last
            last = piece
        if digest.hexdigest() != self._blob.sha256:
            raise blob_files.damaged_error(self._blob)
        yield last


MAX_DOWNLOADED_BYTES = 8 * 1024 * 1024
"""The size up to which a part of a file is read from a storage that downloads the whole file."""


def reads_parts(blob: Blob) -> bool:
    """Return whether parts of a binary can be read without downloading a large file for each."""
    if blob.size <= MAX_DOWNLOADED_BYTES:
        return True
    return file_storage.reads_parts(blob_files.get_storage(blob.storage))


_UNKNOWN: Any = object()


def stream_blob(
    blob: Blob,
    *,
    start: int = 0,
    stop: int | None = None,
    cipher: FileCipher | None = _UNKNOWN,
) -> Stream:
    """Open the file of a binary and compare its size.

    ``cipher`` is that of :func:`blob_files.cipher_of_file`, for calls in threads.

    If the whole file is read, its hash is verified before the last piece is returned. A file of
    one piece is verified before this function returns.
    """
    is_whole = start == 0 and stop in (None, blob.size)
    if cipher is _UNKNOWN:
        cipher = blob_files.cipher_of_file(blob)
    end = blob.size if stop is None else min(stop, blob.size)
    first, last = (start, stop) if cipher is None else part_of_file(blob.size, start, end)
    try:
        pieces = file_storage.stream_file(
            blob_files.get_storage(blob.storage),
            blob.file,
            start=first,
            stop=None if is_whole else last,
        )
    except FileNotFoundError as error:
        raise blob_files.missing_error(blob) from error
    except Exception as error:
        raise blob_files.unreadable_error(blob, error) from error
    if pieces.size != blob_files.size_of_file(blob):
        pieces.close()
        if cipher is not None:
            raise blob_files.undeciphered_error(blob)
        raise blob_files.damaged_error(blob)
    content = pieces if cipher is None else opened(cipher, pieces, blob.size, start, end)
    try:
        return Stream(blob, pieces, content, is_whole=is_whole)
    except BlobError:
        pieces.close()
        raise
