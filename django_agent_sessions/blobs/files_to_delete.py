"""Deletion of files whose rows were deleted.

A file is deleted after the commit of the transaction that deletes its row. That transaction writes
a :class:`FileToDelete`, so that a later run deletes the file if the process ended before, or the
storage refused.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

from django.db import models, transaction

from django_agent_sessions.models import FileToDelete, Session

from . import blob_files

_BATCH = 500


class StoredFile(NamedTuple):
    """A file of a session in a storage, or of an export if the session is None."""

    session: UUID | None
    storage: str
    name: str


def delete_files_after_commit(using: str, files: Iterable[StoredFile], *, person: str = "") -> None:
    """Delete files when the open transaction is committed.

    Call it before a session's row is deleted, because the owner is read from it. ``person`` is the
    primary key of the person to whom files without a session belong.
    """
    files = list(files)
    if not files:
        return
    owners = _owners(using, {file.session for file in files if file.session is not None})
    rows = FileToDelete.objects.using(using).bulk_create(
        (
            FileToDelete(
                session=file.session,
                owner=person if file.session is None else owners.get(file.session, ""),
                storage=file.storage,
                file=file.name,
            )
            for file in files
        ),
        batch_size=_BATCH,
    )
    # robust: an error must not hide from the caller that the transaction was committed.
    transaction.on_commit(functools.partial(_delete, using, rows), using, robust=True)


def delete_remaining(using: str, storage: str | None = None) -> int:
    """Delete the files that earlier deletions left; return how many were deleted."""
    remaining = remaining_files(using, storage).order_by("pk")
    aliases = set(remaining.order_by().values_list("storage", flat=True).distinct())
    return sum(_delete_remaining(using, alias) for alias in sorted(aliases))


def remaining_files(using: str, storage: str | None = None) -> models.QuerySet[FileToDelete]:
    """Return the files that are still to be deleted, of all storages or of one."""
    rows = FileToDelete.objects.using(using)
    return rows.all() if storage is None else rows.filter(storage=storage)


def _delete_remaining(using: str, storage: str) -> int:
    count = 0
    rows = remaining_files(using, storage).order_by("pk")
    batch = list(rows[:_BATCH])
    while batch:
        deleted = _delete(using, batch)
        count += deleted
        # A storage that deletes none of so many files is not available.
        batch = list(rows.filter(pk__gt=batch[-1].pk)[:_BATCH]) if deleted else []
    return count


def _owners(using: str, sessions: Iterable[UUID]) -> dict[UUID, str]:
    rows = Session.objects.using(using).filter(pk__in=sessions, owner__isnull=False)
    return {key: str(owner) for key, owner in rows.values_list("pk", "owner")}


def _delete(using: str, rows: Sequence[FileToDelete]) -> int:
    """Delete files, then the rows of those that are gone; return their number."""
    by_storage: dict[str, list[FileToDelete]] = defaultdict(list)
    for row in rows:
        by_storage[row.storage].append(row)
    deleted = []
    for storage, group in by_storage.items():
        left = blob_files.delete_stored_files(storage, [row.file for row in group])
        deleted += [row for row in group if row.file not in left]
    for start in range(0, len(deleted), _BATCH):
        keys = [row.pk for row in deleted[start : start + _BATCH]]
        FileToDelete.objects.using(using).filter(pk__in=keys).delete()
    return len(deleted)
