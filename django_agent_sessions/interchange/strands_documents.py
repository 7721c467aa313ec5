"""JSON documents in the files of a storage, as Strands' file and S3 session managers write them.

From ``strands/session/file_session_manager.py`` and ``strands/types/session.py``, 1.62: indented
by two spaces, no ASCII escapes, unsorted keys; bytes are
``{"__bytes_encoded__": true, "data": base64}``. A value that has this form by chance is read as
bytes.
"""

from __future__ import annotations

import base64
import errno
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from django.core.exceptions import SuspiciousFileOperation
from django.core.files.storage import FileSystemStorage, Storage

from django_agent_sessions import conf
from django_agent_sessions.blobs import file_storage
from django_agent_sessions.exceptions import InvalidIdError, PayloadError
from django_agent_sessions.values.ids import validate_id

from .untrusted import excess_values

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
        for name in self.list(folder)[0]:
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
        most = _most_bytes()
        [(_, data)] = file_storage.read_untrusted(self.storage, [name], most)
        if isinstance(data, FileNotFoundError):
            return None
        if isinstance(data, OSError) and data.errno == errno.ENAMETOOLONG:
            raise _name_too_long(name)
        if isinstance(data, Exception):
            raise data
        return from_json(_complete(data, name, most), name)

    def read_many(self, names: Sequence[str]) -> Iterator[tuple[str, Document | Exception]]:
        """Yield documents or errors; small ones are read in parallel."""
        found = file_storage.read_untrusted(self.storage, names, _PARALLEL_BYTES)
        for name, data in found:
            yield name, self._document(name, data)

    def _document(self, name: str, data: bytes | Exception | None) -> Document | Exception:
        try:
            if data is None:
                # Large: not read in parallel, so that only one of them is in memory.
                document = self.read(name)
                return FileNotFoundError(name) if document is None else document
            return data if isinstance(data, Exception) else from_json(data, name)
        except Exception as error:
            return error

    def create(self, name: str, document: Document) -> None:
        """Write a new document; raise :exc:`FileExistsError` if it exists."""
        with _short_enough(name):
            self._refuse_link(name)
            file_storage.create_file(self.storage, name, to_json(document, name))

    def write(self, name: str, document: Document) -> None:
        """Write a document, replacing an existing one."""
        with _short_enough(name):
            self._refuse_link(name)
            file_storage.write_file(self.storage, name, to_json(document, name))

    def set_aside(self, name: str) -> None:
        """Copy an unreadable file to a name with the suffix ``.corrupt``, for inspection."""
        self._refuse_link(name)
        data = file_storage.read_file(self.storage, name)
        file_storage.write_file(self.storage, f"{name}.corrupt", data)
        self.report(name, f"it cannot be read; a copy is kept as {name}.corrupt")

    def list(self, folder: str) -> tuple[list[str], list[str]]:
        """Return the folders and files in a folder; raise if it is reached through a link."""
        self._refuse_link(folder)
        return file_storage.list_folder(self.storage, folder)

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
        if file_storage.leads_through_link(self.storage, name):
            # A symbolic link could expose other files as a conversation.
            raise SuspiciousFileOperation(
                f"{name!r} is a symbolic link, or is in a folder that is one"
            )


@contextmanager
def _short_enough(name: str) -> Iterator[None]:
    try:
        yield
        return
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
    raise _name_too_long(name)


def _name_too_long(name: str) -> InvalidIdError:
    longest = max(len(part.encode(errors="surrogatepass")) for part in name.split("/"))
    return InvalidIdError(
        f"the file system has no names of {longest} bytes, which an id requires in the file layout"
    )


_PARALLEL_BYTES = 4 * 1024 * 1024


def _most_bytes() -> int:
    # A document is indented and may escape characters, which a stored payload does not.
    return 2 * conf.get_settings().MAX_PAYLOAD_BYTES


def _complete(data: bytes | None, name: str, most: int) -> bytes:
    if data is None:
        raise PayloadError(f"file {name!r} has more than {most} bytes, twice MAX_PAYLOAD_BYTES")
    return data


Document = dict[str, Any]

_MARKER = "__bytes_encoded__"


def to_json(document: Document, name: str) -> bytes:
    """Serialize a document; ``name`` is for errors."""
    try:
        return json.dumps(document, indent=2, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.dumps(document, indent=2).encode()
    except (TypeError, ValueError, RecursionError) as error:
        # Without the text of the error, which may contain content.
        kind = type(error).__name__
    raise PayloadError(f"the document for {name!r} is not JSON: {kind}")


def from_json(data: bytes, name: str) -> Document:
    """Parse a document; ``name`` is for errors."""
    if most := excess_values(data, _most_bytes()):
        raise PayloadError(
            f"file {name!r} has more than {most} values, which would fill the memory: increase "
            "MAX_PAYLOAD_BYTES"
        )
    try:
        document = json.loads(data.decode())
    except (ValueError, RecursionError):
        # Not raised here, where the error's context would contain the content.
        document = None
    if not isinstance(document, dict):
        raise PayloadError(f"file {name!r} is not a JSON object")
    return document


def mark_bytes(value: Any) -> Any:
    """Replace bytes with their marker."""
    if isinstance(value, bytes):
        return {_MARKER: True, "data": base64.b64encode(value).decode()}
    if isinstance(value, dict):
        return {key: mark_bytes(item) for key, item in value.items()}
    if isinstance(value, list):
        return [mark_bytes(item) for item in value]
    return value


def unmark_bytes(value: Any, name: str) -> Any:
    """Replace markers with their bytes."""
    try:
        return _unmark(value)
    except (TypeError, ValueError):
        # Not raised here, where the error's context would contain the content.
        pass
    raise PayloadError(f"file {name!r} has bytes that are not base64")


def _unmark(value: Any) -> Any:
    if isinstance(value, dict):
        if value.get(_MARKER) is True and "data" in value:
            return base64.b64decode(value["data"])
        return {key: _unmark(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_unmark(item) for item in value]
    return value


def validate_path_id(value: str, what: str) -> str:
    """Return an id for a path; raise :exc:`InvalidIdError` if it is invalid."""
    validate_id(value, what)
    # A backslash is a separator on Windows, and django-storages converts it to a slash.
    if "/" in value or "\\" in value:
        raise InvalidIdError(f"{what} must not contain path separators in the file layout")
    return value
