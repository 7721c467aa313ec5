"""Deletion of files."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable

from django.core.files.storage import FileSystemStorage, Storage

from . import s3
from .folders import is_link
from .parallel import in_parallel


def delete_files(storage: Storage, names: Iterable[str]) -> None:
    """Delete files in parallel; missing files are ignored.

    In a versioned S3 bucket every version is deleted. If that is not permitted, only the
    latest is, and a warning is logged.
    """
    for error in try_deleting_files(storage, names).values():
        raise error


def try_deleting_files(storage: Storage, names: Iterable[str]) -> dict[str, Exception]:
    """Delete files as :func:`delete_files` does; return the errors of those that are left."""
    wanted = list(dict.fromkeys(names))
    if not wanted:
        return {}
    try:
        delete = _deleter(storage)
    except Exception as error:
        return dict.fromkeys(wanted, error)
    outcomes = zip(wanted, in_parallel(delete, wanted), strict=True)
    return {name: error for name, error in outcomes if error is not None}


def _deleter(storage: Storage) -> Callable[[str], None]:
    """Return a function that deletes one file, or a link itself and not its target."""
    if isinstance(storage, FileSystemStorage) and not os.path.isdir(storage.location):
        # Not mounted: its files are not deleted, although none is found.
        raise OSError(f"the folder {storage.location!r} of the storage does not exist")
    versioned = s3.may_have_versions(storage)

    def delete(name: str) -> None:
        if is_link(storage, name):
            os.unlink(storage.path(name))
            return
        with contextlib.suppress(FileNotFoundError):
            storage.delete(name)
        if versioned:
            s3.delete_versions(storage, name)

    return delete
