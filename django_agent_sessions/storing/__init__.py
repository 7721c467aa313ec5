"""Whole files of a Django storage: many read at once, each written at once or not at all.

Django's ``Storage`` opens one file at a time, chooses another name where one is taken, and may send
several requests for one file. Here a name is exactly that name. A storage that keeps files its own
way, by overriding how they are opened or saved, is always used through its own methods.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from django.core.files.storage import Storage

from .disk import Disk
from .generic import AnyStorage
from .parallel import in_parallel
from .pieces import Pieces
from .s3 import Bucket

__all__ = [
    "Pieces",
    "create_file",
    "delete_files",
    "in_parallel",
    "is_link",
    "list_folder",
    "make_folder",
    "read_file",
    "read_files",
    "remove_folder",
    "stream_file",
    "write_file",
]


def read_file(storage: Storage, name: str) -> bytes:
    """Reads a file.

    On S3 this is one request.
    """
    return _backend(storage).read(name)


def read_files(storage: Storage, names: Sequence[str]) -> Iterator[tuple[str, bytes | Exception]]:
    """Reads files in parallel.

    Only a few are read ahead of what was taken, so that many large files are not in memory
    together.
    """
    backend = _backend(storage)
    yield from zip(names, in_parallel(backend.read, names, width=backend.width), strict=True)


def stream_file(storage: Storage, name: str, *, start: int = 0, stop: int | None = None) -> Pieces:
    """Reads a part of a file, piece by piece.

    Nothing larger than a piece is in memory, as far as that is up to us: some storages download a
    file whole when they open it. From S3 only the part is read.
    """
    return _backend(storage).stream(name, start, stop)


def write_file(storage: Storage, name: str, data: bytes) -> None:
    """Writes a file under exactly this name, replacing one that is there.

    On a file system and on S3 a reader sees the old file or the new one, and what was written
    stays written when the machine stops. On other storages that is up to them: one that does not
    overwrite loses the old file a moment before it has the new one.
    """
    _backend(storage).write(name, data)


def create_file(storage: Storage, name: str, data: bytes) -> None:
    """Writes a file that must not be there yet.

    Of several that create the same file on a file system or on S3, one succeeds. On a storage that
    overwrites, and on a server that speaks S3 but ignores ``If-None-Match``, two at the same moment
    may both succeed.
    """
    _backend(storage).create(name, data)


def delete_files(storage: Storage, names: Iterable[str]) -> None:
    """Deletes files in parallel; those that are not there are fine.

    In an S3 bucket that keeps versions, every version is deleted. If that is not allowed, only the
    latest is, and a warning is logged.
    """
    backend = _backend(storage)
    wanted = list(dict.fromkeys(names))
    if not wanted:
        return
    outcomes = list(in_parallel(backend.deleter(), wanted, width=backend.width))
    for error in outcomes:
        if error is not None:
            raise error


def list_folder(storage: Storage, name: str) -> tuple[list[str], list[str]]:
    """Lists what is directly in a folder."""
    folders, files = _backend(storage).list(name)
    return sorted(folders), sorted(files)


def make_folder(storage: Storage, name: str) -> None:
    """Makes an empty folder where the storage has folders: on a file system."""
    _backend(storage).make_folder(name)


def remove_folder(storage: Storage, name: str) -> None:
    """Removes a folder that is empty, where the storage has folders: on a file system.

    Whoever writes a file into it at the same moment makes it again.
    """
    _backend(storage).remove_folder(name)


def is_link(storage: Storage, name: str) -> bool:
    """Tells whether a name is a symbolic link, which a file system may have."""
    return _backend(storage).is_link(name)


def _backend(storage: Storage) -> AnyStorage:
    for kind in (Disk, Bucket):
        if kind.fits(storage):
            return kind(storage)
    return AnyStorage(storage)
