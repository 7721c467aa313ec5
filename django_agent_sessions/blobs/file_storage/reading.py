"""Reading of files; a missing one raises :exc:`FileNotFoundError`, whatever the storage raises."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import IO, Any

from django.core.files.storage import FileSystemStorage, Storage

from . import s3
from .parallel import in_parallel
from .regular_files import open_regular_file
from .streams import Pieces, open_part


def read_file(storage: Storage, name: str) -> bytes:
    """Read a file."""
    opened = s3.open_object(storage, name)
    with (
        _reports_missing(storage, name),
        storage.open(name, "rb") if opened is None else opened[0] as file,
    ):
        data: bytes = file.read()
    return data


def read_files(storage: Storage, names: Sequence[str]) -> Iterator[tuple[str, bytes | Exception]]:
    """Yield the contents or errors of files, read in parallel.

    Only a few files are read ahead, so that many large files are not in memory together.
    """
    yield from zip(names, in_parallel(lambda name: read_file(storage, name), names), strict=True)


def read_untrusted(
    storage: Storage, names: Sequence[str], most: int
) -> Iterator[tuple[str, bytes | Exception | None]]:
    """Yield the contents or errors of files that another user may have written, read in parallel.

    ``None`` stands for a file with more bytes than ``most``. On a file system, an error stands for
    a link, a file in a folder that is a link, and what is not a regular file. Only a few files are
    read ahead, so that many large files are not in memory together.
    """

    def read(name: str) -> bytes | None:
        opened = s3.open_object(storage, name)
        with _reports_missing(storage, name):
            file, size = opened or _open_untrusted(storage, name)
            with file:
                # Before the first read, which downloads the whole file from some storages.
                if size > most:
                    return None
                data: bytes = file.read(most + 1)
        return data if len(data) <= most else None

    yield from zip(names, in_parallel(read, names), strict=True)


def stream_file(storage: Storage, name: str, *, start: int = 0, stop: int | None = None) -> Pieces:
    """Open a part of a file for reading in pieces.

    Only one piece is in memory, unless the storage downloads the whole file to open it, as S3's
    does for a part.
    """
    is_whole = start == 0 and stop is None
    if is_whole and (opened := s3.open_object(storage, name)) is not None:
        body, size = opened
        return Pieces(size, size, body.read, body.close)
    with _reports_missing(storage, name):
        file = storage.open(name, "rb")
        try:
            return open_part(file, start, stop)
        except BaseException:
            file.close()
            raise


def reads_parts(storage: Storage) -> bool:
    """Return whether a part of a file is read without the rest; others may download all of it."""
    return isinstance(storage, FileSystemStorage)


def has_size(storage: Storage, name: str, size: int) -> bool:
    """Return whether a file has this number of bytes; it is read only if it seems not to."""
    with _reports_missing(storage, name), contextlib.suppress(NotImplementedError):
        if storage.size(name) == size:
            return True
    # A storage that compresses or encrypts may return the stored size.
    with contextlib.closing(stream_file(storage, name)) as pieces:
        return pieces.size == size


def _open_untrusted(storage: Storage, name: str) -> tuple[IO[bytes], int]:
    """Open a file; also return its size, or 0 if it is unknown."""
    if isinstance(storage, FileSystemStorage) and not _opens_otherwise(storage):
        return open_regular_file(storage.location, name), 0
    file = storage.open(name, "rb")
    return file, getattr(file, "size", 0)


def _opens_otherwise(storage: Any) -> bool:
    """Return whether a file's content may differ from its bytes, as with one that encrypts."""
    # Not `type`, which returns the proxy class of Django's lazy default storage.
    kind: Any = FileSystemStorage
    return storage.__class__._open is not kind._open


@contextlib.contextmanager
def _reports_missing(storage: Storage, name: str) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, NotImplementedError):
        raise
    except Exception as error:
        # Some storages raise their own error for a missing file, and only on reading. A file system
        # does not: there it is a link, or a name that is too long.
        if not isinstance(storage, FileSystemStorage) and _is_missing(storage, name):
            raise FileNotFoundError(f"file {name!r} does not exist") from error
        raise


def _is_missing(storage: Storage, name: str) -> bool:
    try:
        return not storage.exists(name)
    except Exception:
        return False
