"""Files of binaries in their storage."""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Iterable
from uuid import UUID

from django.core.files.storage import InvalidStorageError, Storage, storages

from django_agent_sessions import conf, storing
from django_agent_sessions.exceptions import BlobError, BlobNotFoundError, ConfigurationError
from django_agent_sessions.models import Blob

logger = logging.getLogger("django_agent_sessions")


class DamagedBlobError(BlobNotFoundError):
    """A file is there, and is not what was stored."""


def storage_of(alias: str) -> Storage:
    """Finds a storage."""
    try:
        return storages[alias]
    except InvalidStorageError:
        failed = ConfigurationError(
            f"STORAGES has no storage {alias!r} (or it cannot be made), in which binaries of "
            "messages are: see AGENT_SESSIONS['BLOB_STORAGE']"
        )
    raise failed


def new_name(session: UUID) -> str:
    """Names a file: under the session, and never as another was named.

    A name that was used before might be deleted by whoever took the earlier file away. Names end
    up in logs and listings, and so tell nothing of what is in the file: by a hash, somebody could
    test guesses.
    """
    return in_folder(folder(), f"{session}/{secrets.token_hex(16)}")


def folder() -> str:
    """Tells in which folder of the storage the sessions' folders are; ``""`` is the storage's."""
    return conf.get_settings().BLOB_PREFIX.strip("/")


def in_folder(name: str, file: str) -> str:
    """Names what is in a folder of a storage."""
    return f"{name}/{file}" if name else file


def save(alias: str, name: str, data: bytes) -> None:
    """Writes a file."""
    try:
        storing.write_file(storage_of(alias), name, data)
    except Exception as error:
        raise BlobError(
            f"binary {name} could not be stored in {alias!r}: {type(error).__name__}"
        ) from error


def read(blobs: Iterable[Blob]) -> dict[str, bytes | BlobError]:
    """Reads files, several at a time."""
    by_storage: dict[str, dict[str, Blob]] = {}
    for blob in blobs:
        by_storage.setdefault(blob.storage, {})[blob.file] = blob
    found: dict[str, bytes | BlobError] = {}
    for alias, by_name in by_storage.items():
        try:
            storage = storage_of(alias)
        except ConfigurationError as error:
            # Its alias may come back, and the files with it: nothing is missing.
            found |= {blob.sha256: unreadable(blob, error) for blob in by_name.values()}
            continue
        for name, content in storing.read_files(storage, list(by_name)):
            found[by_name[name].sha256] = _checked(by_name[name], content)
    return found


def lost(blobs: Iterable[Blob]) -> list[Blob]:
    """Finds out which files are missing or of another size, without reading them."""
    rows = list(blobs)
    found = storing.in_parallel(_is_lost, rows)
    return [row for row, gone in zip(rows, found, strict=True) if gone is True]


def _is_lost(blob: Blob) -> bool:
    try:
        pieces = storing.stream_file(storage_of(blob.storage), blob.file, start=0, stop=1)
    except FileNotFoundError:
        return True
    pieces.close()
    return pieces.size != blob.size


def delete(alias: str, names: Iterable[str]) -> None:
    """Deletes files, and the sessions' folders that are empty then.

    What cannot be deleted is left to ``manage.py agent_sessions_gc``.
    """
    names = list(names)
    try:
        storage = storage_of(alias)
        storing.delete_files(storage, names)
        for session in {name.rpartition("/")[0] for name in names}:
            storing.remove_folder(storage, session)
    except Exception:
        logger.warning(
            "%d files of binaries could not be deleted from %r; "
            "manage.py agent_sessions_gc deletes them",
            len(names),
            alias,
            exc_info=True,
        )


def _checked(blob: Blob, content: bytes | Exception) -> bytes | BlobError:
    if isinstance(content, FileNotFoundError):
        return BlobNotFoundError(
            f"binary {blob.pk} of session {blob.session_id} is missing from storage "
            f"{blob.storage!r}: restore it, or let BLOB_PLACEHOLDERS replace it"
        )
    if isinstance(content, Exception):
        return unreadable(blob, content)
    if len(content) != blob.size or hashlib.sha256(content).hexdigest() != blob.sha256:
        return damaged(blob)
    return content


def damaged(blob: Blob) -> DamagedBlobError:
    """Says that a file is not what was stored."""
    return DamagedBlobError(
        f"binary {blob.pk} of session {blob.session_id} is damaged in storage {blob.storage!r}: "
        "it is not what was stored"
    )


def unreadable(blob: Blob, error: Exception) -> BlobError:
    """Says that a file cannot be read now."""
    # Of a setting that is wrong, the error says which.
    why = str(error) if isinstance(error, ConfigurationError) else type(error).__name__
    failed = BlobError(
        f"binary {blob.pk} of session {blob.session_id} could not be read from storage "
        f"{blob.storage!r}: {why}"
    )
    failed.__cause__ = error
    return failed
