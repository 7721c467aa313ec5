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

    Args:
        storage: The storage.
        name: The name of the file in it.

    Returns:
        What is in it.

    Raises:
        FileNotFoundError: It is not there, whatever the storage raises for that.
    """
    return _backend(storage).read(name)


def read_files(storage: Storage, names: Sequence[str]) -> Iterator[tuple[str, bytes | Exception]]:
    """Reads files in parallel.

    Only a few are read ahead of what was taken, so that many large files are not in memory
    together.

    Args:
        storage: The storage.
        names: The names of the files.

    Yields:
        In the order asked for: each name with what is in the file, or with the error; a
        ``FileNotFoundError`` if it is not there.
    """
    backend = _backend(storage)
    yield from zip(names, in_parallel(backend.read, names, width=backend.width), strict=True)


def stream_file(storage: Storage, name: str, *, start: int = 0, stop: int | None = None) -> Pieces:
    """Reads a part of a file, piece by piece.

    Nothing larger than a piece is in memory, as far as that is up to us: some storages download a
    file whole when they open it. From S3 only the part is read.

    Args:
        storage: The storage.
        name: The name of the file.
        start: Where to begin, in bytes; somewhere in the file.
        stop: Where to end, that byte not included; none for the end of the file.

    Returns:
        The pieces, of which the first was read already; and how large the whole file is.

    Raises:
        FileNotFoundError: It is not there, whatever the storage raises for that.
    """
    return _backend(storage).stream(name, start, stop)


def write_file(storage: Storage, name: str, data: bytes) -> None:
    """Writes a file under exactly this name, replacing one that is there.

    On a file system and on S3 a reader sees the old file or the new one, and what was written
    stays written when the machine stops. On other storages that is up to them: one that does not
    overwrite loses the old file a moment before it has the new one.

    Args:
        storage: The storage.
        name: The name of the file.
        data: What is to be in it.

    Raises:
        FileExistsError: The storage gave it another name, because somebody else wrote at the same
            moment.
    """
    _backend(storage).write(name, data)


def create_file(storage: Storage, name: str, data: bytes) -> None:
    """Writes a file that must not be there yet.

    Of several that create the same file on a file system or on S3, one succeeds. On a storage that
    overwrites, and on a server that speaks S3 but ignores ``If-None-Match``, two at the same moment
    may both succeed.

    Args:
        storage: The storage.
        name: The name of the file.
        data: What is to be in it.

    Raises:
        FileExistsError: It is there already, and stays as it was.
    """
    _backend(storage).create(name, data)


def delete_files(storage: Storage, names: Iterable[str]) -> None:
    """Deletes files in parallel; those that are not there are fine.

    In an S3 bucket that keeps versions, every version is deleted. If that is not allowed, only the
    latest is, and a warning is logged.

    Args:
        storage: The storage.
        names: The names of the files.

    Raises:
        Exception: The first error of the storage, after all files were tried.
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
    """Lists what is directly in a folder.

    Args:
        storage: The storage.
        name: The name of the folder; ``""`` is the storage's own.

    Returns:
        The names of its folders and the names of its files, without the folder's, sorted. Both are
        empty if there is no such folder.
    """
    folders, files = _backend(storage).list(name)
    return sorted(folders), sorted(files)


def make_folder(storage: Storage, name: str) -> None:
    """Makes an empty folder where the storage has folders: on a file system.

    Args:
        storage: The storage.
        name: The name of the folder. It may be there already.
    """
    _backend(storage).make_folder(name)


def remove_folder(storage: Storage, name: str) -> None:
    """Removes a folder that is empty, where the storage has folders: on a file system.

    Whoever writes a file into it at the same moment makes it again.

    Args:
        storage: The storage.
        name: The name of the folder. It may not be there, and it stays if there is anything in it.
    """
    _backend(storage).remove_folder(name)


def is_link(storage: Storage, name: str) -> bool:
    """Tells whether a name is a symbolic link, which a file system may have.

    Args:
        storage: The storage.
        name: The name of the file.

    Returns:
        True if what stands under this name is somewhere else.
    """
    return _backend(storage).is_link(name)


def _backend(storage: Storage) -> AnyStorage:
    for kind in (Disk, Bucket):
        if kind.fits(storage):
            return kind(storage)
    return AnyStorage(storage)
