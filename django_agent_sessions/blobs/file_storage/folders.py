"""Folders and links; only a file system has them, apart from the names that a storage lists."""

from __future__ import annotations

import contextlib
import os

from django.core.files.base import ContentFile
from django.core.files.storage import FileSystemStorage, Storage

from .local import temporary_name
from .regular_files import has_link_below


def list_folder(storage: Storage, name: str) -> tuple[list[str], list[str]]:
    """Return the folders and files directly in a folder, sorted."""
    try:
        folders, files = storage.listdir(name)
    except (FileNotFoundError, NotADirectoryError):
        return [], []
    return sorted(folders), sorted(files)


def make_folder(storage: Storage, name: str) -> None:
    """Create an empty folder on a file system; other storages have no folders."""
    if isinstance(storage, FileSystemStorage) and not os.path.isdir(storage.path(name)):
        # The storage creates the folders of a file, with its own permissions.
        storage.delete(storage.save(temporary_name(f"{name}/new"), ContentFile(b"")))


def remove_folder(storage: Storage, name: str) -> None:
    """Remove an empty folder on a file system; other storages have no folders.

    A concurrent write of a file in it creates the folder again.
    """
    if isinstance(storage, FileSystemStorage):
        with contextlib.suppress(OSError):
            os.rmdir(storage.path(name))


def is_link(storage: Storage, name: str) -> bool:
    """Return whether a name is a symbolic link on a file system."""
    return isinstance(storage, FileSystemStorage) and os.path.islink(storage.path(name))


def leads_through_link(storage: Storage, name: str) -> bool:
    """Return whether a name or one of its folders is a symbolic link on a file system."""
    return isinstance(storage, FileSystemStorage) and has_link_below(storage.location, name)
