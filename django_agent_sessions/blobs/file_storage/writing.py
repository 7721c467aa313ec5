"""Writing of files under exact names."""

from __future__ import annotations

import contextlib

from django.core.files.base import ContentFile
from django.core.files.storage import FileSystemStorage, Storage

from . import local
from .reading import has_size

_TRIES = 10
"""Number of attempts to write into a folder that other processes remove while it is empty."""


def add_file(storage: Storage, name: str, data: bytes) -> str:
    """Write a file under a name that no other has; return the name that the storage chose.

    On a file system the file is durable when this function returns.
    """
    if not isinstance(storage, FileSystemStorage):
        return _save(storage, name, data)
    folders = local.folders_to_sync(storage, name)
    saved = _save(storage, name, data)
    local.sync(storage, saved, folders)
    return saved


def write_file(storage: Storage, name: str, data: bytes) -> None:
    """Write a file under exactly this name, replacing an existing one.

    On a file system the write is atomic and durable. On other storages this depends on the
    storage: if it cannot overwrite, the old file is deleted before the new one is written.
    """
    if isinstance(storage, FileSystemStorage):
        with local.removed(storage, add_file(storage, local.temporary_name(name), data)) as path:
            local.replace(storage, path, name)
        return
    if storage.get_available_name(name) != name:
        storage.delete(name)
    _save_as(storage, name, data)


def create_file(storage: Storage, name: str, data: bytes) -> None:
    """Write a new file; raise :exc:`FileExistsError` if it exists.

    On a file system the write is atomic and durable, and exactly one of several concurrent calls
    succeeds. On a storage that overwrites, as S3's does, several may succeed.
    """
    if storage.exists(name):
        raise FileExistsError(f"file {name!r} already exists")
    if isinstance(storage, FileSystemStorage):
        with local.removed(storage, add_file(storage, local.temporary_name(name), data)) as path:
            if local.link(storage, path, name):
                return
    _save_as(storage, name, data)


def _save_as(storage: Storage, name: str, data: bytes) -> None:
    saved = add_file(storage, name, data)
    if saved.replace("\\", "/") != name:
        storage.delete(saved)
        raise FileExistsError(f"another process wrote file {name!r} at the same time")


def _save(storage: Storage, name: str, data: bytes) -> str:
    for _ in range(_TRIES):
        with contextlib.suppress(FileNotFoundError):
            saved: str = storage.save(name, ContentFile(data))
            break
    else:
        raise FileNotFoundError(f"the folder of file {name!r} was removed on each attempt")
    if not has_size(storage, saved, len(data)):
        raise OSError(f"the storage did not store all {len(data)} bytes of file {name!r}")
    return saved
