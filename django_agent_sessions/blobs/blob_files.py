"""Files of binaries in a storage."""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any
from uuid import UUID

from django.conf import settings
from django.core.files.storage import (
    FileSystemStorage,
    InvalidStorageError,
    Storage,
    storages,
)

from django_agent_sessions import conf
from django_agent_sessions.blobs import file_storage
from django_agent_sessions.content import codec, sealed_files
from django_agent_sessions.content.sealed_files import FileCipher
from django_agent_sessions.exceptions import (
    BlobError,
    BlobNotFoundError,
    ConfigurationError,
    DecryptionError,
)
from django_agent_sessions.models import Blob

logger = logging.getLogger("django_agent_sessions")

MAX_PREFIX_LENGTH = 150
"""The maximum length of ``BLOB_PREFIX`` in characters."""


class DamagedBlobError(BlobNotFoundError):
    """A file exists, but its content differs from the stored content."""


class UndecipheredBlobError(DamagedBlobError, DecryptionError):
    """An encrypted file exists, but was truncated or changed, or is that of another binary."""


def get_storage(alias: str) -> Storage:
    """Return a storage by its alias."""
    try:
        return storages[alias]
    except InvalidStorageError:
        new_error = ConfigurationError(
            f"STORAGES has no alias {alias!r}, but binaries of messages or exports are in this "
            "storage: add the alias to STORAGES; see AGENT_SESSIONS['BLOB_STORAGE']"
        )
    raise new_error


def is_public(storage: Any) -> bool:
    """Return whether files can be read by anyone who knows their names."""
    if isinstance(storage, FileSystemStorage):
        media = os.path.abspath(settings.MEDIA_ROOT) if settings.MEDIA_ROOT else None
        return media is not None and Path(storage.location).is_relative_to(media)
    acl = getattr(storage, "default_acl", None) or ""
    return getattr(storage, "querystring_auth", True) is False or acl.startswith("public")


def has_no_folder(storage: Any) -> bool:
    """Return whether files go to the working directory of whichever process writes them."""
    return isinstance(storage, FileSystemStorage) and not storage.base_location


def is_valid_prefix(prefix: str) -> bool:
    """Return whether a value of ``BLOB_PREFIX`` is a folder in any kind of storage."""
    if "\\" in prefix or not prefix.isprintable() or len(prefix) > MAX_PREFIX_LENGTH:
        return False
    parts = prefix.strip("/").split("/")
    return parts == [""] or not {"", ".", ".."} & set(parts)


def new_name(session: UUID) -> str:
    """Return a new unique name in the session's folder.

    A name must not be reused, because the deletion of the earlier file may still be pending. Names
    appear in logs and listings, and a hash would allow guesses about the content.
    """
    return join_name(root_folder(), f"{session}/{secrets.token_hex(16)}")


def root_folder() -> str:
    """Return the folder that contains the sessions' folders; empty for the storage's root."""
    return conf.get_settings().BLOB_PREFIX.strip("/")


def join_name(name: str, file: str) -> str:
    """Return the name of a file in a folder, which may be empty for the root."""
    return f"{name}/{file}" if name else file


def save(alias: str, name: str, data: bytes) -> str:
    """Store a new file; return the name that the storage chose, which is usually ``name``."""
    try:
        return file_storage.add_file(get_storage(alias), name, data)
    except Exception as error:
        raise BlobError(
            f"binary {name} could not be stored in storage {alias!r}: {type(error).__name__}"
        ) from error


def cipher_of_file(blob: Blob) -> FileCipher | None:
    """Return what decrypts a binary's file; None for a plain one.

    It may query the database of the keys: call it before a thread reads the file.
    """
    if blob.data_key is None:
        return None
    return codec.find_file_cipher(blob.data_key, blob.session_id, blob.sha256)


def size_of_file(blob: Blob) -> int:
    """Return the size that a binary's file should have."""
    return blob.size if blob.data_key is None else sealed_files.stored_size(blob.size)


def check_size(blob: Blob) -> None:
    """Raise :exc:`BlobNotFoundError` if a file is missing or has another size."""
    storage = get_storage(blob.storage)
    try:
        has_size = file_storage.has_size(storage, blob.file, size_of_file(blob))
    except FileNotFoundError as error:
        raise missing_error(blob) from error
    except Exception as error:
        raise unreadable_error(blob, error) from error
    if not has_size:
        raise damaged_error(blob)


def read(blobs: Iterable[Blob]) -> dict[str, bytes | BlobError]:
    """Return the contents or errors of binaries by hash; read in parallel."""
    by_storage: dict[str, dict[str, Blob]] = {}
    for blob in blobs:
        by_storage.setdefault(blob.storage, {})[blob.file] = blob
    contents: dict[str, bytes | BlobError] = {}
    for alias, by_name in by_storage.items():
        try:
            storage = get_storage(alias)
        except ConfigurationError as error:
            # A wrong setting: the file is not missing.
            contents |= {blob.sha256: unreadable_error(blob, error) for blob in by_name.values()}
            continue
        for name, content in file_storage.read_files(storage, list(by_name)):
            contents[by_name[name].sha256] = _check(by_name[name], content)
    return contents


def find_lost(blobs: Iterable[Blob]) -> list[Blob]:
    """Return the binaries whose files are missing or have another size, without reading them."""
    rows = list(blobs)
    flags = file_storage.in_parallel(_is_lost, rows)
    return [row for row, is_lost in zip(rows, flags, strict=True) if is_lost is True]


def _is_lost(blob: Blob) -> bool:
    try:
        check_size(blob)
    except BlobNotFoundError:
        return True
    return False


def delete_stored_files(alias: str, names: Collection[str]) -> Collection[str]:
    """Delete files, and the folders of sessions that become empty; return the files that are left.

    Errors are logged; ``manage.py agent_sessions_gc`` deletes the remaining files.
    """
    try:
        storage = get_storage(alias)
        errors = file_storage.try_deleting_files(storage, names)
        for folder in {name.rpartition("/")[0] for name in names if name not in errors}:
            file_storage.remove_folder(storage, folder)
    except Exception as error:
        errors = dict.fromkeys(names, error)
    if errors:
        logger.warning(
            "%d files of binaries could not be deleted from storage %r; "
            "run manage.py agent_sessions_gc",
            len(errors),
            alias,
            exc_info=next(iter(errors.values())),
        )
    return errors


def _check(blob: Blob, content: bytes | Exception) -> bytes | BlobError:
    if isinstance(content, FileNotFoundError):
        return BlobNotFoundError(
            f"{missing_error(blob)}: restore it from a backup, or set BLOB_PLACEHOLDERS to return "
            "a placeholder text instead"
        )
    if isinstance(content, Exception):
        return unreadable_error(blob, content)
    if (cipher := cipher_of_file(blob)) is not None:
        if len(content) != size_of_file(blob):
            return undeciphered_error(blob)
        try:
            content = b"".join(sealed_files.opened(cipher, [content], blob.size, 0, blob.size))
        except DecryptionError as error:
            return undeciphered_error(blob, error)
    if len(content) != blob.size or hashlib.sha256(content).hexdigest() != blob.sha256:
        return damaged_error(blob)
    return content


def missing_error(blob: Blob) -> BlobNotFoundError:
    """Return the error for a file that does not exist."""
    return BlobNotFoundError(
        f"binary {blob.pk} of session {blob.session_id} is missing from storage {blob.storage!r}"
    )


def damaged_error(blob: Blob) -> DamagedBlobError:
    """Return the error for a file with another content than the stored one."""
    return DamagedBlobError(
        f"binary {blob.pk} of session {blob.session_id} is damaged in storage {blob.storage!r}: "
        "its size or hash differs from the recorded one; restore it from a backup"
    )


def undeciphered_error(blob: Blob, error: DecryptionError | None = None) -> UndecipheredBlobError:
    """Return the error for an encrypted file that cannot be decrypted."""
    reason = "its size differs from the recorded one" if error is None else str(error)
    return UndecipheredBlobError(
        f"binary {blob.pk} of session {blob.session_id} is damaged in storage {blob.storage!r}: "
        f"{reason}; restore it from a backup"
    )


def unreadable_error(blob: Blob, error: Exception) -> BlobError:
    """Return the error for a file that cannot be read now."""
    # The text of a configuration error names the setting and contains no content.
    reason = str(error) if isinstance(error, ConfigurationError) else type(error).__name__
    new_error = BlobError(
        f"binary {blob.pk} of session {blob.session_id} could not be read from storage "
        f"{blob.storage!r}: {reason}"
    )
    new_error.__cause__ = error
    return new_error
