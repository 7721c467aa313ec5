"""Files on a file system, written atomically and durably."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable

from django.core.files.storage import FileSystemStorage, Storage

from .generic import StorageBackend, inherits_methods, upto
from .regular_files import has_link_below, open_regular_file

_TRIES = 50
"""Number of attempts to create a folder that other processes remove."""


class FileSystemBackend(StorageBackend):
    """Reads and writes files of Django's ``FileSystemStorage``."""

    storage: FileSystemStorage

    @staticmethod
    def fits(storage: Storage) -> bool:
        """Return whether this class supports a storage."""
        return isinstance(storage, FileSystemStorage) and inherits_methods(
            storage,
            FileSystemStorage,
            ("open", "_open", "save", "_save", "delete", "exists", "listdir"),
        )

    def read_untrusted(self, name: str, most: int) -> bytes | None:
        """Read a regular file that is not reached through a link."""
        with open_regular_file(self.storage.location, name) as file:
            return upto(file.read(most + 1), most)

    def write(self, name: str, data: bytes) -> None:
        """Write a temporary file and move it to its name."""
        path = self.storage.path(name)
        self._put(path, data, lambda temporary: os.replace(temporary, path))

    def add(self, name: str, data: bytes) -> str:
        """Write a file under a name that no other has."""
        self.write(name, data)
        return name

    def create(self, name: str, data: bytes) -> None:
        """Write a temporary file and move it to its name, unless that exists."""
        path = self.storage.path(name)

        def move_if_absent(temporary: str) -> None:
            # A hard link, because moving a file would overwrite.
            try:
                os.link(temporary, path)
            except FileExistsError:
                raise
            except OSError:
                # The file system does not support hard links.
                if os.path.lexists(path):
                    raise FileExistsError(f"file {name!r} already exists") from None
                os.replace(temporary, path)

        if os.path.lexists(path):
            raise FileExistsError(f"file {name!r} already exists")
        self._put(path, data, move_if_absent)

    def deleter(self) -> Callable[[str], None]:
        """Return a function that deletes one file, or a link itself and not its target."""
        delete_file = super().deleter()
        if not os.path.isdir(self.storage.location):
            # Not mounted: its files are not deleted, although none is found.
            raise OSError(f"the folder {self.storage.location!r} of the storage does not exist")

        def delete(name: str) -> None:
            if self.is_link(name):
                os.unlink(self.storage.path(name))
            else:
                delete_file(name)

        return delete

    def make_folder(self, name: str) -> None:
        """Create a folder and its parents."""
        self._make_folders(self.storage.path(name))

    def remove_folder(self, name: str) -> None:
        """Remove a folder if it is empty."""
        with contextlib.suppress(OSError):
            os.rmdir(self.storage.path(name))

    def is_link(self, name: str) -> bool:
        """Return whether a name is a symbolic link."""
        return os.path.islink(self.storage.path(name))

    def leads_through_link(self, name: str) -> bool:
        """Return whether a name or one of its folders is a symbolic link."""
        return has_link_below(self.storage.location, name)

    def _put(self, path: str, data: bytes, move: Callable[[str], None]) -> None:
        folder, file = os.path.split(path)
        # Hidden, with a suffix that readers ignore.
        temporary = os.path.join(folder, f".{file[:100]}.{secrets.token_hex(8)}.tmp")
        try:
            with os.fdopen(self._create_temporary(folder, temporary), "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            if self.storage.file_permissions_mode is not None:
                os.chmod(temporary, self.storage.file_permissions_mode)
            move(temporary)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
        _sync(folder)

    def _create_temporary(self, folder: str, temporary: str) -> int:
        # The process's umask applies, as for all files that Django writes.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        for _ in range(_TRIES):
            # Another process may remove the empty folder.
            with contextlib.suppress(FileNotFoundError):
                self._make_folders(folder)
                return os.open(temporary, flags, 0o666)
        raise FileNotFoundError(
            f"another process removed folder {folder!r} on each attempt to create a file in it"
        )

    def _make_folders(self, folder: str) -> None:
        if os.path.isdir(folder):
            return
        parent = os.path.dirname(folder)
        self._make_folders(parent)
        try:
            os.mkdir(folder)
        except FileExistsError:
            # Another process created it; or it is a file, for which the next step raises.
            return
        if self.storage.directory_permissions_mode is not None:
            os.chmod(folder, self.storage.directory_permissions_mode)
        _sync(parent)


def _sync(folder: str) -> None:
    """Sync a folder to disk; Windows does not support this and denies opening it."""
    with contextlib.suppress(PermissionError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
