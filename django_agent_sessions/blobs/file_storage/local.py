"""What Django's ``FileSystemStorage`` leaves open: durable files, atomic replacement and creation.

``save`` writes a file under a temporary name, with the storage's own methods; only its path is
moved here. A killed process leaves at most such a file, which has a suffix that readers ignore.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path

from django.core.files.storage import FileSystemStorage


def temporary_name(name: str) -> str:
    """Return a hidden name in the same folder."""
    folder, _, file = name.rpartition("/")
    temporary = f".{file[:100]}.{secrets.token_hex(8)}.tmp"
    return f"{folder}/{temporary}" if folder else temporary


@contextlib.contextmanager
def removed(storage: FileSystemStorage, name: str) -> Iterator[str]:
    """Yield the path of a file, which is deleted at the end if it was not moved."""
    try:
        yield storage.path(name)
    finally:
        storage.delete(name)


def replace(storage: FileSystemStorage, path: str, name: str) -> None:
    """Move a file to a name, replacing an existing file, or a link and not its target."""
    os.replace(path, storage.path(name))
    _sync_folders([Path(path).parent])


def link(storage: FileSystemStorage, path: str, name: str) -> bool:
    """Give a file a second name, which must not exist; False if there are no hard links."""
    try:
        os.link(path, storage.path(name))
    except FileExistsError:
        raise FileExistsError(f"file {name!r} already exists") from None
    except OSError:
        return False
    _sync_folders([Path(path).parent])
    return True


def folders_to_sync(storage: FileSystemStorage, name: str) -> list[Path]:
    """Return the folders that change when a file is saved: its own, and those of new folders."""
    folder = Path(storage.path(name)).parent
    changed = [folder]
    while not folder.is_dir():
        folder = folder.parent
        changed.append(folder)
    return changed


def sync(storage: FileSystemStorage, name: str, folders: Sequence[Path]) -> None:
    """Make a file durable, with the folders that changed; delete it if that fails."""
    try:
        _sync(storage.path(name))
        _sync_folders(folders)
    except BaseException:
        storage.delete(name)
        raise


def _sync_folders(folders: Sequence[Path]) -> None:
    # Windows denies opening a folder.
    with contextlib.suppress(PermissionError):
        for folder in folders:
            _sync(folder)


def _sync(path: str | Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
