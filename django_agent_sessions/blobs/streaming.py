"""A binary on its way out, piece by piece, for whoever may see it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from django_agent_sessions import storing
from django_agent_sessions.exceptions import BlobError, BlobNotFoundError
from django_agent_sessions.models import Blob

from . import files


class Stream:
    """A binary, or a part of it, in pieces; of the whole, the last comes after a check."""

    def __init__(self, blob: Blob, pieces: storing.Pieces, *, whole: bool) -> None:
        self._blob = blob
        self._pieces = pieces
        self._following = self._whole() if whole else self._part()
        self.beginning = next(self._following, b"")
        """The first piece, which is given once more."""
        self._begun = False

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if self._begun:
            return next(self._following)
        self._begun = True
        return self.beginning

    def close(self) -> None:
        """Closes the file; more than once is fine."""
        self._pieces.close()

    def _part(self) -> Iterator[bytes]:
        try:
            yield from self._pieces
        except Exception as error:
            raise files.unreadable(self._blob, error) from error

    def _whole(self) -> Iterator[bytes]:
        """Keeps one piece back, so that nobody takes a damaged file for a whole one."""
        digest, last = hashlib.sha256(), b""
        for piece in self._part():
            digest.update(piece)
            if last:
                yield last
            last = piece
        if digest.hexdigest() != self._blob.sha256:
            raise files.damaged(self._blob)
        yield last


def stream_blob(blob: Blob, *, start: int = 0, stop: int | None = None) -> Stream:
    """Opens the file of a binary.

    Its size is compared with what was stored. If all of it is read, its hash is too, before the
    last piece; so what has only one piece is checked before this returns.
    """
    whole = start == 0 and stop in (None, blob.size)
    try:
        pieces = storing.stream_file(
            files.storage_of(blob.storage), blob.file, start=start, stop=None if whole else stop
        )
    except FileNotFoundError as error:
        raise BlobNotFoundError(
            f"binary {blob.pk} of session {blob.session_id} is missing from storage "
            f"{blob.storage!r}"
        ) from error
    except Exception as error:
        raise files.unreadable(blob, error) from error
    if pieces.size != blob.size:
        pieces.close()
        raise files.damaged(blob)
    try:
        return Stream(blob, pieces, whole=whole)
    except BlobError:
        pieces.close()
        raise
