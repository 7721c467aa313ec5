"""Documents in the files of a storage."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence

from django.core.exceptions import SuspiciousFileOperation
from django.core.files.storage import FileSystemStorage, Storage

from django_agent_sessions import storing
from django_agent_sessions.exceptions import InvalidIdError, PayloadError

from .documents import Document, from_json, to_json
from .names import checked

logger = logging.getLogger(__name__)

Report = Callable[[str, str], None]


def log_report(name: str, reason: str) -> None:
    """Logs what was passed over."""
    logger.warning("Passed over %r: %s", name, reason)


class Files:
    """Reads and writes documents."""

    def __init__(self, storage: Storage, report: Report) -> None:
        self.storage = storage
        self.report = report

    def ids(self, folder: str, start: str, what: str) -> list[str]:
        """Lists the ids that the names of folders hold."""
        found: list[str] = []
        for name in storing.list_folder(self.storage, folder)[0]:
            place = f"{folder}/{name}" if folder else name
            if not name.startswith(start):
                self.report(place, f"its name does not begin with {start}")
                continue
            try:
                found.append(checked(name.removeprefix(start), what))
            except InvalidIdError as error:
                self.report(place, str(error))
        return found

    def read(self, name: str) -> Document | None:
        """Reads a document."""
        self._refuse_link(name)
        try:
            data = storing.read_file(self.storage, name)
        except FileNotFoundError:
            return None
        return from_json(data, name)

    def read_many(self, names: Sequence[str]) -> Iterator[tuple[str, Document | Exception]]:
        """Reads documents in parallel."""
        links = {name for name in names if storing.is_link(self.storage, name)}
        found = storing.read_files(self.storage, [name for name in names if name not in links])
        for name in names:
            yield name, _link(name) if name in links else _document(*next(found))

    def create(self, name: str, document: Document) -> None:
        """Writes a document where there is none."""
        storing.create_file(self.storage, name, to_json(document, name))

    def write(self, name: str, document: Document) -> None:
        """Writes a document, replacing one that is there."""
        self._refuse_link(name)
        storing.write_file(self.storage, name, to_json(document, name))

    def set_aside(self, name: str) -> None:
        """Copies a file that cannot be read to a name beside it, for somebody to look at."""
        self._refuse_link(name)
        data = storing.read_file(self.storage, name)
        storing.write_file(self.storage, f"{name}.corrupt", data)
        self.report(name, f"it cannot be read; a copy is {name}.corrupt")

    def delete_folder(self, folder: str) -> bool:
        """Deletes a folder with all that is in it."""
        if storing.is_link(self.storage, folder):
            # What it leads to is not ours.
            storing.delete_files(self.storage, [folder])
            return True
        folders, files = storing.list_folder(self.storage, folder)
        there = bool(files)
        for name in folders:
            there = self.delete_folder(f"{folder}/{name}") or there
        storing.delete_files(self.storage, [f"{folder}/{name}" for name in files])
        if isinstance(self.storage, FileSystemStorage) and self.storage.exists(folder):
            # By now it is empty.
            self.storage.delete(folder)
            return True
        return there

    def _refuse_link(self, name: str) -> None:
        if storing.is_link(self.storage, name):
            raise _link(name)


def _link(name: str) -> SuspiciousFileOperation:
    # Whoever may make links there could have others' files read as a conversation.
    return SuspiciousFileOperation(f"{name!r} is a symbolic link")


def _document(name: str, data: bytes | Exception) -> Document | Exception:
    if isinstance(data, Exception):
        return data
    try:
        return from_json(data, name)
    except PayloadError as error:
        return error
