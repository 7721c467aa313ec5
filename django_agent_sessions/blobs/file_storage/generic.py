"""Files of any storage, through Django's ``Storage`` API."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import IO

from django.core.files.base import ContentFile
from django.core.files.storage import Storage

from .streams import Pieces, open_part


class StorageBackend:
    """Reads, writes, deletes and lists files of any storage."""

    width: int = 8
    """Number of files read in parallel."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    def read(self, name: str) -> bytes:
        """Read a file; raise :exc:`FileNotFoundError` if it does not exist."""
        return self._read(name, -1)

    def read_untrusted(self, name: str, most: int) -> bytes | None:
        """Read a file that another user may have written; ``None`` if it has more bytes."""
        return upto(self._read(name, most + 1), most)

    def _read(self, name: str, size: int) -> bytes:
        """Read the first bytes of a file, or all of it."""
        try:
            with self.storage.open(name, "rb") as file:
                data: bytes = file.read(size)
        except FileNotFoundError:
            raise
        except Exception as error:
            # Some storages raise their own error for a missing file, and only on reading.
            if self._is_missing(name):
                raise FileNotFoundError(f"file {name!r} does not exist") from error
            raise
        return data

    def stream(self, name: str, start: int, stop: int | None) -> Pieces:
        """Open a part of a file; raise :exc:`FileNotFoundError` if it does not exist."""
        file = self._open(name)
        try:
            return open_part(file, start, stop)
        except BaseException:
            file.close()
            raise

    def _open(self, name: str) -> IO[bytes]:
        try:
            return self.storage.open(name, "rb")
        except FileNotFoundError:
            raise
        except Exception as error:
            if self._is_missing(name):
                raise FileNotFoundError(f"file {name!r} does not exist") from error
            raise

    def write(self, name: str, data: bytes) -> None:
        """Write a file, replacing an existing one."""
        if self.storage.get_available_name(name) != name:
            self.storage.delete(name)
        self._save(name, data)

    def add(self, name: str, data: bytes) -> str:
        """Write a file under a name that no other has; return the name that the storage chose."""
        saved = self.storage.save(name, ContentFile(data))
        if not self._is_stored(saved, data):
            raise OSError(f"the storage did not store all {len(data)} bytes of file {name!r}")
        return saved

    def create(self, name: str, data: bytes) -> None:
        """Write a new file; raise :exc:`FileExistsError` if it exists."""
        if self.storage.exists(name):
            raise FileExistsError(f"file {name!r} already exists")
        self._save(name, data)

    def deleter(self) -> Callable[[str], None]:
        """Return a thread-safe function that deletes one file."""

        def delete(name: str) -> None:
            with contextlib.suppress(FileNotFoundError):
                self.storage.delete(name)

        return delete

    def list(self, name: str) -> tuple[list[str], list[str]]:
        """Return the folders and files in a folder, which may not exist."""
        try:
            folders, files = self.storage.listdir(name)
        except (FileNotFoundError, NotADirectoryError):
            return [], []
        return list(folders), list(files)

    def make_folder(self, name: str) -> None:
        """Do nothing: most storages have no folders."""

    def remove_folder(self, name: str) -> None:
        """Do nothing: most storages have no folders."""

    def is_link(self, name: str) -> bool:
        """Return False: most storages have no links."""
        return False

    def leads_through_link(self, name: str) -> bool:
        """Return False: most storages have no links."""
        return False

    def _save(self, name: str, data: bytes) -> None:
        saved = self.add(name, data)
        if saved.replace("\\", "/") != name:
            self.storage.delete(saved)
            raise FileExistsError(f"another process wrote file {name!r} at the same time")

    def _is_stored(self, name: str, data: bytes) -> bool:
        """Return whether the storage has exactly the saved data."""
        try:
            if self.storage.size(name) == len(data):
                return True
        except NotImplementedError:
            pass
        # Storages that compress or encrypt may return the stored size.
        return self.read(name) == data

    def _is_missing(self, name: str) -> bool:
        try:
            return not self.storage.exists(name)
        except Exception:
            return False


def upto(data: bytes, most: int) -> bytes | None:
    """Return the data, or ``None`` if it has more bytes than this."""
    return data if len(data) <= most else None


def inherits_methods(storage: Storage, base: type, ways: tuple[str, ...]) -> bool:
    """Return whether a storage's class inherits these methods from its base unchanged."""
    # Not `type`, which returns the proxy class of Django's lazy default storage.
    kind = storage.__class__
    return all(getattr(kind, method) is getattr(base, method) for method in ways)
