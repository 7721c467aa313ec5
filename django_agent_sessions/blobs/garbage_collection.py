"""Garbage collection: files without a row, and rows without a file or a message."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

from django.core.files.storage import Storage
from django.db import Error, transaction
from django.db.models import Exists, OuterRef
from django.utils import timezone

from django_agent_sessions import conf
from django_agent_sessions.blobs import file_storage
from django_agent_sessions.content.sealed_files import FileCipher
from django_agent_sessions.db import bridge
from django_agent_sessions.exceptions import BlobNotFoundError, ConfigurationError
from django_agent_sessions.models import AuditEvent, Blob, BlobReference, Session
from django_agent_sessions.models.session_databases import databases_with_sessions

from . import blob_files
from .blob_rows import delete_blobs, delete_unreferenced, references_are_correct, update_references
from .blob_streams import stream_blob

logger = logging.getLogger("django_agent_sessions")

DEFAULT_AGE = timedelta(hours=24)
"""The minimal age of a deleted file without a row: a long transaction may not have committed its
row yet."""

_BATCH = 500


@dataclass(slots=True)
class CollectionResult:
    """The result: deleted files and rows, or those that a dry run would delete."""

    files: list[str] = field(default_factory=list)
    bytes: int = 0
    rows: int = 0
    missing: list[UUID] = field(default_factory=list)
    damaged: list[UUID] = field(default_factory=list)
    too_recent: int = 0
    unknown_files: int = 0
    unknown_sessions: int = 0
    unavailable_databases: list[str] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Task:
    using: str
    databases: Sequence[str]
    older_than: timedelta
    dry_run: bool
    unknown_too: bool


def collect(
    *,
    older_than: timedelta = DEFAULT_AGE,
    dry_run: bool = False,
    storage: str | None = None,
    using: str | None = None,
    unknown_sessions: bool = False,
    verify: bool = False,
) -> CollectionResult:
    """Delete files without a row and binaries without a message, and find missing files.

    Sessions are processed one by one, so that it needs little memory and can be interrupted.
    """
    alias = bridge.database(using)
    databases, not_asked = databases_with_sessions(alias)
    result = CollectionResult(unavailable_databases=not_asked)
    for session in _sessions_to_clean(alias):
        result.rows += _drop_unused(alias, session, dry_run=dry_run)
    task = _Task(alias, databases, older_than, dry_run, unknown_sessions and not not_asked)
    for name in [storage] if storage is not None else _storages(alias):
        try:
            _find_orphans(name, task, result)
            _find_lost(name, alias, result, verify=verify)
        except Error:
            raise
        except ConfigurationError as error:
            result.failures[name] = str(error)
        except Exception as error:
            logger.warning("Storage %r could not be cleaned up", name, exc_info=True)
            result.failures[name] = type(error).__name__
    return result


def messages_using(binaries: Iterable[UUID], using: str | None = None) -> dict[UUID, list[UUID]]:
    """Return the messages that use binaries."""
    rows = BlobReference.objects.using(bridge.database(using)).order_by("message")
    return {key: list(rows.filter(blob=key).values_list("message", flat=True)) for key in binaries}


def _storages(using: str) -> list[str]:
    used_storages = set(
        Blob.objects.using(using).order_by().values_list("storage", flat=True).distinct()
    )
    configured = conf.get_settings().BLOB_STORAGE
    return sorted(used_storages | ({configured} if configured is not None else set()))


def _sessions_to_clean(using: str) -> Iterator[UUID]:
    """Yield the sessions with unused binaries or with wrong references."""
    used = BlobReference.objects.filter(blob=OuterRef("pk"))
    blobs = Blob.objects.using(using)
    unused = set(blobs.filter(~Exists(used)).order_by().values_list("session_id", flat=True))
    rows = blobs.order_by("session_id").values_list("session_id", flat=True).distinct()
    last: UUID | None = None
    while batch := list((rows if last is None else rows.filter(session_id__gt=last))[:_BATCH]):
        for session in batch:
            if session in unused or not all(
                references_are_correct(using, session, messages)
                for messages in _messages(using, session)
            ):
                yield session
        last = batch[-1]


def _messages(using: str, session: UUID) -> Iterator[list[UUID]]:
    """Yield batches of the messages with references to binaries."""
    rows = BlobReference.objects.using(using).filter(session=session).order_by("message")
    keys = rows.values_list("message", flat=True).distinct()
    last: UUID | None = None
    while batch := list((keys if last is None else keys.filter(message__gt=last))[:_BATCH]):
        yield batch
        last = batch[-1]


def _drop_unused(using: str, session: UUID, *, dry_run: bool) -> int:
    used = BlobReference.objects.filter(blob=OuterRef("pk"))
    rows = Blob.objects.using(using).filter(session=session)
    with transaction.atomic(using):
        Session.objects.using(using).select_for_update().only("pk").filter(pk=session).first()
        before = rows.count()
        # A process without BLOB_STORAGE may have changed messages.
        for messages in _messages(using, session):
            update_references(using, session, messages)
        delete_unreferenced(using, session)
        delete_blobs(using, list(rows.filter(~Exists(used))))
        after = rows.count()
        if dry_run:
            transaction.set_rollback(True, using)
    return before - after


def _find_orphans(name: str, task: _Task, result: CollectionResult) -> None:
    """Compare the files of a storage with the rows of all databases."""
    storage = blob_files.get_storage(name)
    prefix = blob_files.root_folder()
    folders, _ = file_storage.list_folder(storage, prefix)
    for folder in folders:
        key = _parse_key(folder)
        if key is None:
            # Not a folder of a session.
            continue
        path = blob_files.join_name(prefix, folder)
        # Files before rows, so that a row committed in between is seen.
        _, files_in_folder = file_storage.list_folder(storage, path)
        orphans = sorted({f"{path}/{file}" for file in files_in_folder} - _names_in_rows(task, key))
        old = [file for file in orphans if _is_old(storage, file, task.older_than)]
        result.too_recent += len(orphans) - len(old)
        if not files_in_folder and not task.dry_run:
            file_storage.remove_folder(storage, path)
        if not old:
            continue
        if not task.unknown_too and not _is_known(task, key):
            result.unknown_files += len(old)
            result.unknown_sessions += 1
            continue
        size = sum(_size(storage, file) for file in old)
        if not task.dry_run:
            file_storage.delete_files(storage, old)
            file_storage.remove_folder(storage, path)
        result.bytes += size
        result.files += old


def _names_in_rows(task: _Task, session: UUID) -> set[str]:
    # Several aliases may use the same storage location.
    return {
        file
        for using in task.databases
        for file in Blob.objects.using(using).filter(session=session).values_list("file", flat=True)
    }


def _is_known(task: _Task, session: UUID) -> bool:
    """Return whether a session is in one of the databases, or was deleted there.

    A process that was killed during an append may have left a file of a session that was deleted
    before this run.
    """
    return any(
        Session.objects.using(using).filter(pk=session).exists() or _was_deleted(using, session)
        for using in task.databases
    )


def _was_deleted(using: str, session: UUID) -> bool:
    """Return whether the audit trail has the deletion of a session."""
    events = AuditEvent.objects.using(using).filter(action=AuditEvent.Action.DELETED)
    if events.filter(session=session).exists():
        return True
    # A prune deletes several sessions with one event.
    return events.filter(session=None, details__sessions__icontains=str(session)).exists()


def _find_lost(name: str, using: str, result: CollectionResult, *, verify: bool) -> None:
    """Compare the rows with their files."""
    rows = Blob.objects.using(using).filter(storage=name).order_by("pk")
    last: UUID | None = None

    def fault(given: tuple[Blob, FileCipher | None]) -> BlobNotFoundError | None:
        return _fault(*given, verify=verify)

    while batch := list((rows if last is None else rows.filter(pk__gt=last))[:_BATCH]):
        # Sizes are compared without the keys.
        given = [(blob, blob_files.cipher_of_file(blob) if verify else None) for blob in batch]
        faults = dict(zip(batch, file_storage.in_parallel(fault, given), strict=True))
        for error in faults.values():
            if error is not None and not isinstance(error, BlobNotFoundError):
                raise error
        suspects = [blob for blob, error in faults.items() if error is not None]
        # Without rows that another process deleted meanwhile.
        current_files = dict(
            rows.filter(pk__in=[row.pk for row in suspects]).values_list("pk", "file")
        )
        for blob in suspects:
            if current_files.get(blob.pk) == blob.file:
                damaged = isinstance(faults[blob], blob_files.DamagedBlobError)
                (result.damaged if damaged else result.missing).append(blob.pk)
        last = batch[-1].pk


def _fault(blob: Blob, cipher: FileCipher | None, *, verify: bool) -> BlobNotFoundError | None:
    """Return the error of a file, or None."""
    try:
        if not verify:
            blob_files.check_size(blob)
            return None
        with contextlib.closing(stream_blob(blob, cipher=cipher)) as stream:
            for _ in stream:
                pass
    except BlobNotFoundError as error:
        return error
    return None


def _parse_key(folder: str) -> UUID | None:
    try:
        key = UUID(folder)
    except ValueError:
        return None
    return key if str(key) == folder else None


def _is_old(storage: Storage, path: str, older_than: timedelta) -> bool:
    try:
        changed = storage.get_modified_time(path)
    except NotImplementedError:
        return False
    except Exception:
        if storage.exists(path):
            raise
        # Another process deleted it meanwhile; some storages raise their own errors.
        return False
    if timezone.is_naive(changed):
        changed = timezone.make_aware(changed)
    return changed <= timezone.now() - older_than


def _size(storage: Storage, path: str) -> int:
    try:
        return storage.size(path)
    except Exception:
        if storage.exists(path):
            raise
        return 0
