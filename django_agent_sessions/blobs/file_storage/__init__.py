"""Files of a Django storage: parallel reads and atomic writes under exact names.

Django's ``Storage`` opens one file at a time, chooses another name if one is taken, and may send
several requests per file. A storage that overrides how files are opened or saved is used only
through its own methods.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from django.core.files.storage import Storage

from .disk import FileSystemBackend
from .generic import StorageBackend
from .parallel import in_parallel
from .regular_files import open_regular_file
from .s3 import S3Backend
from .streams import Pieces

__all__ = [
    "Pieces",
    "add_file",
    "create_file",
    "delete_files",
    "in_parallel",
    "is_link",
    "leads_through_link",
    "list_folder",
    "make_folder",
    "open_regular_file",
    "read_file",
    "read_files",
    "read_untrusted",
    "remove_folder",
    "stream_file",
    "try_deleting_files",
    "write_file",
]


def read_file(storage: Storage, name: str) -> bytes:
    """Read a file; one request on S3."""
    return _backend(storage).read(name)


def read_files(storage: Storage, names: Sequence[str]) -> Iterator[tuple[str, bytes | Exception]]:
    """Yield the contents or errors of files, read in parallel.

    Only a few files are read ahead, so that many large files are not in memory together.
    """
    backend = _backend(storage)
    yield from zip(names, in_parallel(backend.read, names, width=backend.width), strict=True)


def read_untrusted(
    storage: Storage, names: Sequence[str], most: int
) -> Iterator[tuple[str, bytes | Exception | None]]:
    """Yield the contents or errors of files that another user may have written, read in parallel.

    ``None`` stands for a file with more bytes than ``most``. On a file system, an error stands for
    a link, a file in a folder that is a link, and what is not a regular file. Only a few files are
    read ahead, so that many large files are not in memory together.
    """
    backend = _backend(storage)

    def read(name: str) -> bytes | None:
        return backend.read_untrusted(name, most)

    yield from zip(names, in_parallel(read, names, width=backend.width), strict=True)


def stream_file(storage: Storage, name: str, *, start: int = 0, stop: int | None = None) -> Pieces:
    """Open a part of a file for reading in pieces.

    Only one piece is in memory, unless the storage downloads the whole file on opening. From S3
    only the part is read.
    """
    return _backend(storage).stream(name, start, stop)


def write_file(storage: Storage, name: str, data: bytes) -> None:
    """Write a file under exactly this name, replacing an existing one.

    On a file system and on S3 the write is atomic and durable. On other storages this depends on
    the storage: if it cannot overwrite, the old file is deleted before the new one is written.
    """
    _backend(storage).write(name, data)


def add_file(storage: Storage, name: str, data: bytes) -> str:
    """Write a file under a name that no other has; return the name under which it is stored.

    The write is atomic and durable as that of :func:`write_file`.
    """
    return _backend(storage).add(name, data)


def create_file(storage: Storage, name: str, data: bytes) -> None:
    """Write a new file; raise :exc:`FileExistsError` if it exists.

    On a file system and on S3 exactly one of several concurrent calls succeeds. On a storage that
    overwrites, and on an S3-compatible server that ignores ``If-None-Match``, several may succeed.
    """
    _backend(storage).create(name, data)


def delete_files(storage: Storage, names: Iterable[str]) -> None:
    """Delete files in parallel; missing files are ignored.

    In a versioned S3 bucket every version is deleted. If that is not permitted, only the
    latest is, and a warning is logged.
    """
    for error in try_deleting_files(storage, names).values():
        raise error


def try_deleting_files(storage: Storage, names: Iterable[str]) -> dict[str, Exception]:
    """Delete files as :func:`delete_files` does; return the errors of those that are left."""
    backend = _backend(storage)
    wanted = list(dict.fromkeys(names))
    if not wanted:
        return {}
    try:
        delete = backend.deleter()
    except Exception as error:
        return dict.fromkeys(wanted, error)
    outcomes = in_parallel(delete, wanted, width=backend.width)
    named = zip(wanted, outcomes, strict=True)
    return {name: error for name, error in named if error is not None}


def list_folder(storage: Storage, name: str) -> tuple[list[str], list[str]]:
    """Return the folders and files directly in a folder, sorted."""
    folders, files = _backend(storage).list(name)
    return sorted(folders), sorted(files)


def make_folder(storage: Storage, name: str) -> None:
    """Create an empty folder on a file system; other storages have no folders."""
    _backend(storage).make_folder(name)


def remove_folder(storage: Storage, name: str) -> None:
    """Remove an empty folder on a file system; other storages have no folders.

    A concurrent write of a file in it creates the folder again.
    """
    _backend(storage).remove_folder(name)


def is_link(storage: Storage, name: str) -> bool:
    """Return whether a name is a symbolic link on a file system."""
    return _backend(storage).is_link(name)


def leads_through_link(storage: Storage, name: str) -> bool:
    """Return whether a name or one of its folders is a symbolic link on a file system."""
    return _backend(storage).leads_through_link(name)


def _backend(storage: Storage) -> StorageBackend:
    for kind in (FileSystemBackend, S3Backend):
        if kind.fits(storage):
            return kind(storage)
    return StorageBackend(storage)
