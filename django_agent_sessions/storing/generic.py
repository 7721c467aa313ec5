"""Any storage, through what Django says every storage has."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import IO

from django.core.files.base import ContentFile
from django.core.files.storage import Storage

from .pieces import Pieces, part_of


class AnyStorage:
    """Reads, writes, deletes and lists in a storage of any kind."""

    width: int = 8
    """How many files are read at the same time."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    def read(self, name: str) -> bytes:
        """Reads a file; a ``FileNotFoundError`` says that it is not there."""
        try:
            with self.storage.open(name, "rb") as file:
                data: bytes = file.read()
        except FileNotFoundError:
            raise
        except Exception as error:
            # Some storages notice only while reading, and have an error of their own for it.
            if self._is_missing(name):
                raise FileNotFoundError(f"no file {name!r}") from error
            raise
        return data

    def stream(self, name: str, start: int, stop: int | None) -> Pieces:
        """Reads a part of a file in pieces; a ``FileNotFoundError`` says that it is not there."""
        file = self._opened(name)
        try:
            return part_of(file, start, stop)
        except BaseException:
            file.close()
            raise

    def _opened(self, name: str) -> IO[bytes]:
        try:
            return self.storage.open(name, "rb")
        except FileNotFoundError:
            raise
        except Exception as error:
            if self._is_missing(name):
                raise FileNotFoundError(f"no file {name!r}") from error
            raise

    def write(self, name: str, data: bytes) -> None:
        """Writes a file, replacing one that is there."""
        if self.storage.get_available_name(name) != name:
            self.storage.delete(name)
        self._save(name, data)

    def create(self, name: str, data: bytes) -> None:
        """Writes a file; a ``FileExistsError`` says that there is one."""
        if self.storage.exists(name):
            raise FileExistsError(f"file {name!r} exists already")
        self._save(name, data)

    def deleter(self) -> Callable[[str], None]:
        """Returns what deletes one file, from any thread."""

        def delete(name: str) -> None:
            with contextlib.suppress(FileNotFoundError):
                self.storage.delete(name)

        return delete

    def list(self, name: str) -> tuple[list[str], list[str]]:
        """Lists folders and files in a folder that may not be there."""
        try:
            folders, files = self.storage.listdir(name)
        except (FileNotFoundError, NotADirectoryError):
            return [], []
        return list(folders), list(files)

    def make_folder(self, name: str) -> None:
        """Does nothing: most storages have no folders."""

    def remove_folder(self, name: str) -> None:
        """Does nothing: most storages have no folders."""

    def is_link(self, name: str) -> bool:
        """Says no: most storages have no links."""
        return False

    def _save(self, name: str, data: bytes) -> None:
        saved = self.storage.save(name, ContentFile(data))
        if saved.replace("\\", "/") != name:
            self.storage.delete(saved)
            raise FileExistsError(f"file {name!r} was written by somebody else at this moment")
        if not self._holds(name, data):
            raise OSError(f"the storage did not keep all {len(data)} bytes of file {name!r}")

    def _holds(self, name: str, data: bytes) -> bool:
        """Tells whether what was saved is there whole, whatever the storage said of it."""
        try:
            if self.storage.size(name) == len(data):
                return True
        except NotImplementedError:
            pass
        # One that compresses or encrypts may tell how much it takes, and not how much it gives.
        return self.read(name) == data

    def _is_missing(self, name: str) -> bool:
        try:
            return not self.storage.exists(name)
        except Exception:
            return False


def keeps_ways(storage: Storage, base: type, ways: tuple[str, ...]) -> bool:
    """Tells whether a storage does some things as its base class does."""
    # Of Django's lazy default storage, `type` would tell the proxy's.
    kind = storage.__class__
    return all(getattr(kind, way) is getattr(base, way) for way in ways)
