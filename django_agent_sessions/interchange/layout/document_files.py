"""JSON documents in the files of a storage."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence

from django.core.exceptions import SuspiciousFileOperation
from django.core.files.storage import FileSystemStorage, Storage

from django_agent_sessions.blobs import file_storage
from django_agent_sessions.exceptions import InvalidIdError, PayloadError

from .names import validate_path_id
from .session_documents import Document, from_json, to_json

logger = logging.getLogger(__name__)

Report = Callable[[str, str], None]


def log_report(name: str, reason: str) -> None:
    """Log a skipped file."""
    logger.warning("Skipped %r: %s", name, reason)


class DocumentFiles:
    def __init__(self, storage: Storage, report: Report) -> None:
        self.storage = storage
        self.report = report

    def ids(self, folder: str, start: str, what: str) -> list[str]:
        """Return the ids in the names of folders; report other names."""
        found: list[str] = []
        for name in file_storage.list_folder(self.storage, folder)[0]:
            location = f"{folder}/{name}" if folder else name
            if not name.startswith(start):
                self.report(location, f"its name does not begin with {start}")
                continue
            try:
                found.append(validate_path_id(name.removeprefix(start), what))
            except InvalidIdError as error:
                self.report(location, str(error))
        return found

    def read(self, name: str) -> Document | None:
        """Read a document; None if it does not exist."""
        self._refuse_link(name)
        try:
            data = file_storage.read_file(self.storage, name)
        except FileNotFoundError:
            return None
        return from_json(data, name)

    def read_many(self, names: Sequence[str]) -> Iterator[tuple[str, Document | Exception]]:
        """Yield documents or errors, read in parallel."""
        links = {name for name in names if file_storage.is_link(self.storage, name)}
        found = file_storage.read_files(self.storage, [name for name in names if name not in links])
        for name in names:
            yield name, _link(name) if name in links else _document(*next(found))

    def create(self, name: str, document: Document) -> None:
        """Write a new document; raise :exc:`FileExistsError` if it exists."""
        file_storage.create_file(self.storage, name, to_json(document, name))

    def write(self, name: str, document: Document) -> None:
        """Write a document, replacing an existing one."""
        self._refuse_link(name)
        file_storage.write_file(self.storage, name, to_json(document, name))

    def set_aside(self, name: str) -> None:
        """Copy an unreadable file to a name with the suffix ``.corrupt``, for inspection."""
        self._refuse_link(name)
        data = file_storage.read_file(self.storage, name)
        file_storage.write_file(self.storage, f"{name}.corrupt", data)
        self.report(name, f"it cannot be read; a copy is kept as {name}.corrupt")

    def delete_folder(self, folder: str) -> bool:
        """Delete a folder recursively; return whether it existed."""
        if file_storage.is_link(self.storage, folder):
            # Delete the link and not its target.
            file_storage.delete_files(self.storage, [folder])
            return True
        folders, files = file_storage.list_folder(self.storage, folder)
        existed = bool(files)
        for name in folders:
            existed = self.delete_folder(f"{folder}/{name}") or existed
        file_storage.delete_files(self.storage, [f"{folder}/{name}" for name in files])
        if isinstance(self.storage, FileSystemStorage) and self.storage.exists(folder):
            # It is empty now.
            self.storage.delete(folder)
            return True
        return existed

    def _refuse_link(self, name: str) -> None:
        if file_storage.is_link(self.storage, name):
            raise _link(name)


def _link(name: str) -> SuspiciousFileOperation:
    # A symbolic link could expose other files as a conversation.
    return SuspiciousFileOperation(f"{name!r} is a symbolic link")


def _document(name: str, data: bytes | Exception) -> Document | Exception:
    if isinstance(data, Exception):
        return data
    try:
        return from_json(data, name)
    except PayloadError as error:
        return error
