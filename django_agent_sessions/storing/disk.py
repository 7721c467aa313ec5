"""Files on a file system: there as a whole or not at all, and still there after a crash."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable

from django.core.files.storage import FileSystemStorage, Storage

from .generic import AnyStorage, keeps_ways

_TRIES = 50
"""How often a folder is made that others remove."""


class Disk(AnyStorage):
    """Reads and writes where Django's ``FileSystemStorage`` does."""

    storage: FileSystemStorage

    @staticmethod
    def fits(storage: Storage) -> bool:
        """Tells whether a storage is of this kind."""
        return isinstance(storage, FileSystemStorage) and keeps_ways(
            storage,
            FileSystemStorage,
            ("open", "_open", "save", "_save", "delete", "exists", "listdir"),
        )

    def write(self, name: str, data: bytes) -> None:
        """Writes a file beside its place and moves it there."""
        path = self.storage.path(name)
        self._put(path, data, lambda made: os.replace(made, path))

    def create(self, name: str, data: bytes) -> None:
        """Writes a file beside its place and moves it there, unless the place is taken."""
        path = self.storage.path(name)

        def take(made: str) -> None:
            # The only way to move a file that does not overwrite.
            try:
                os.link(made, path)
            except FileExistsError:
                raise
            except OSError:
                # A file system without hard links.
                if os.path.lexists(path):
                    raise FileExistsError(f"file {name!r} exists already") from None
                os.replace(made, path)

        if os.path.lexists(path):
            raise FileExistsError(f"file {name!r} exists already")
        self._put(path, data, take)

    def deleter(self) -> Callable[[str], None]:
        """Returns what deletes one file, or a link instead of what it leads to."""
        delete_file = super().deleter()

        def delete(name: str) -> None:
            if self.is_link(name):
                os.unlink(self.storage.path(name))
            else:
                delete_file(name)

        return delete

    def make_folder(self, name: str) -> None:
        """Makes a folder, and those above it."""
        self._make_folders(self.storage.path(name))

    def remove_folder(self, name: str) -> None:
        """Removes a folder if it is empty."""
        with contextlib.suppress(OSError):
            os.rmdir(self.storage.path(name))

    def is_link(self, name: str) -> bool:
        """Tells whether a name is a symbolic link."""
        return os.path.islink(self.storage.path(name))

    def _put(self, path: str, data: bytes, move: Callable[[str], None]) -> None:
        folder, file = os.path.split(path)
        # Hidden, and with an ending that no reader takes for the file itself.
        made = os.path.join(folder, f".{file[:100]}.{secrets.token_hex(8)}.tmp")
        try:
            with os.fdopen(self._begin(folder, made), "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            if self.storage.file_permissions_mode is not None:
                os.chmod(made, self.storage.file_permissions_mode)
            move(made)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(made)
        _sync(folder)

    def _begin(self, folder: str, made: str) -> int:
        # What the process's umask leaves, as for every file that Django writes.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        for _ in range(_TRIES):
            # Somebody may remove the folder, as long as it is empty.
            with contextlib.suppress(FileNotFoundError):
                self._make_folders(folder)
                return os.open(made, flags, 0o666)
        raise FileNotFoundError(f"folder {folder!r} does not stay")

    def _make_folders(self, folder: str) -> None:
        if os.path.isdir(folder):
            return
        above = os.path.dirname(folder)
        self._make_folders(above)
        try:
            os.mkdir(folder)
        except FileExistsError:
            # Somebody else was faster, or it is a file, which the next step says.
            return
        if self.storage.directory_permissions_mode is not None:
            os.chmod(folder, self.storage.directory_permissions_mode)
        _sync(above)


def _sync(folder: str) -> None:
    """Makes the names in a folder last; Windows has no such thing and refuses to open it."""
    with contextlib.suppress(PermissionError):
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
