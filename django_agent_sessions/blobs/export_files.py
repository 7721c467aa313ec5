"""The files of an export of all matches: parts of one JSON Lines file, in a storage."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import IO
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from django_agent_sessions import conf
from django_agent_sessions.content import codec
from django_agent_sessions.content.codec import Owned
from django_agent_sessions.db import bridge
from django_agent_sessions.models import Operation

from . import blob_files, file_storage, files_to_delete

PART_BYTES = 8 * 1024 * 1024
"""The most bytes of a part, which is in memory while it is written or read."""

_COLUMN = "agent_sessions_operation.files"

logger = logging.getLogger("django_agent_sessions")


def storage_alias() -> str | None:
    """Return the alias of the storage for exports, if there is one."""
    settings = conf.get_settings()
    return settings.EXPORT_STORAGE or settings.BLOB_STORAGE


def write_parts(operation: UUID, first: int, data: IO[bytes]) -> Iterator[int]:
    """Write parts with numbers from ``first``, replacing those of a killed process; yield each."""
    storage = blob_files.get_storage(str(storage_alias()))
    number = first
    while part := data.read(PART_BYTES):
        sealed = codec.seal_bytes(operation, _COLUMN, part, Owned(None))
        file_storage.write_file(storage, f"{_folder(operation)}/{number:06}", sealed)
        number += 1
        yield number


def is_downloadable(operation: Operation) -> bool:
    """Return whether an export has files and finished less than ``EXPORT_SECONDS`` ago."""
    is_done = operation.files > 0 and operation.status == Operation.Status.DONE
    finished = operation.finished_at
    return is_done and finished is not None and finished > _expiry()


def read_export(operation: Operation) -> Iterator[bytes]:
    """Yield the parts of a finished export."""
    storage = blob_files.get_storage(str(storage_alias()))
    for number in range(operation.files):
        sealed = file_storage.read_file(storage, f"{_folder(operation.pk)}/{number:06}")
        yield codec.open_bytes(operation.pk, _COLUMN, sealed)


def delete_export(operation: Operation) -> None:
    """Delete the files of an export, also those that a killed process left; errors are logged."""
    _delete_parts(operation, 0)


def delete_uncounted_parts(operation: Operation) -> None:
    """Delete the parts of an export after those that count; errors are logged."""
    _delete_parts(operation, operation.files)


def _delete_parts(operation: Operation, first: int) -> None:
    if operation.kind != Operation.Kind.EXPORT or (alias := storage_alias()) is None:
        return
    try:
        storage, folder = blob_files.get_storage(alias), _folder(operation.pk)
        _, names = file_storage.list_folder(storage, folder)
        parts = [name for name in names if first == 0 or name >= f"{first:06}"]
        file_storage.delete_files(storage, [f"{folder}/{name}" for name in parts])
        if first == 0:
            file_storage.remove_folder(storage, folder)
    except Exception:
        # A storage raises errors of its own.
        logger.warning("The files of an export could not be deleted", exc_info=True)


def delete_expired_exports(*, using: str | None = None) -> int:
    """Delete the files of exports that are older than ``EXPORT_SECONDS``; return their number."""
    rows = Operation.objects.using(bridge.database(using)).filter(files__gt=0)
    return delete_exports(rows.filter(finished_at__lte=_expiry()))


def delete_exports(operations: Iterable[Operation], *, person: str = "") -> int:
    """Delete the files of exports, with a later run if a storage refuses; return their number.

    ``person`` is the primary key of the user whose erasure deletes them.
    """
    count = 0
    for operation in operations:
        using = operation._state.db or bridge.database()
        count += operation.files
        with transaction.atomic(using):
            delete_parts_after_commit(operation, using, person=person)
            operation.files = 0
            operation.save(update_fields=["files"])
        delete_export(operation)
    return count


def delete_parts_after_commit(operation: Operation, using: str, *, person: str = "") -> None:
    """Delete the parts of an export when the open transaction is committed."""
    if (alias := storage_alias()) is not None:
        names = (f"{_folder(operation.pk)}/{number:06}" for number in range(operation.files))
        parts = (files_to_delete.StoredFile(None, alias, name) for name in names)
        files_to_delete.delete_files_after_commit(using, parts, person=person)


def _expiry() -> datetime:
    """Return the time at which an export that expires now was finished."""
    return timezone.now() - timedelta(seconds=conf.get_settings().EXPORT_SECONDS)


def _folder(operation: UUID) -> str:
    # Beside the folder of binaries, in which unknown files are orphans.
    return f"{blob_files.root_folder() or 'agent_sessions'}_exports/{operation}"
