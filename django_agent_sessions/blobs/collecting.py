"""Finding what a crash left behind: files without a row, and rows without a file or a message."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

from django.core.exceptions import ImproperlyConfigured
from django.core.files.storage import Storage
from django.db import Error, connections, transaction
from django.db.models import Exists, OuterRef
from django.utils import timezone

from django_agent_sessions import bridge, conf, storing
from django_agent_sessions.exceptions import BlobNotFoundError, ConfigurationError
from django_agent_sessions.models import Blob, BlobReference, Session

from . import files
from .rows import are_noted, drop, drop_messages, note_uses
from .streaming import stream_blob

logger = logging.getLogger("django_agent_sessions")

DEFAULT_AGE = timedelta(hours=24)
"""How old a file without a row has to be: a message that is being written may be about to name it,
and a caller's transaction may last."""

_PART = 500


@dataclass(slots=True)
class Collection:
    """What was found, and deleted unless it was a dry run."""

    files: list[str] = field(default_factory=list)
    bytes: int = 0
    rows: int = 0
    missing: list[UUID] = field(default_factory=list)
    damaged: list[UUID] = field(default_factory=list)
    young: int = 0
    unknown: int = 0
    unknown_sessions: int = 0
    not_asked: list[str] = field(default_factory=list)
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
) -> Collection:
    """Deletes files that no row names, and binaries that no message uses; finds lost files.

    Every session is looked at by itself, so that it needs little memory and may be interrupted.
    """
    alias = bridge.database(using)
    databases, not_asked = _databases(alias)
    found = Collection(not_asked=not_asked)
    for session in _sessions_to_clean(alias):
        found.rows += _unused(alias, session, dry_run=dry_run)
    task = _Task(alias, databases, older_than, dry_run, unknown_sessions and not not_asked)
    for name in [storage] if storage is not None else _storages(alias):
        try:
            _find_orphans(name, task, found)
            _find_lost(name, alias, found, verify=verify)
        except Error:
            raise
        except ConfigurationError as error:
            found.failures[name] = str(error)
        except Exception as error:
            logger.warning("storage %r could not be cleaned up", name, exc_info=True)
            found.failures[name] = type(error).__name__
    return found


def users_of(binaries: Iterable[UUID], using: str | None = None) -> dict[UUID, list[UUID]]:
    """Finds the messages that use binaries, so that they can be looked at or redacted."""
    rows = BlobReference.objects.using(bridge.database(using)).order_by("message")
    return {key: list(rows.filter(blob=key).values_list("message", flat=True)) for key in binaries}


def _databases(using: str) -> tuple[list[str], list[str]]:
    """Finds the databases that may know sessions, and those that cannot be asked."""
    asked, failed = [using], []
    for alias in connections:
        if alias == using:
            continue
        try:
            if connections[alias].vendor == "unknown":
                # DATABASES says of it that it is none: it has no ENGINE.
                continue
            tables = connections[alias].introspection.table_names()
        except (Error, ImproperlyConfigured):
            failed.append(alias)
            continue
        if Blob._meta.db_table in tables:
            asked.append(alias)
    return asked, failed


def _storages(using: str) -> list[str]:
    named = set(Blob.objects.using(using).order_by().values_list("storage", flat=True).distinct())
    configured = conf.get_settings().BLOB_STORAGE
    return sorted(named | ({configured} if configured is not None else set()))


def _sessions_to_clean(using: str) -> Iterator[UUID]:
    """Finds sessions with binaries that no message of theirs uses, or as not noted."""
    used = BlobReference.objects.filter(blob=OuterRef("pk"))
    blobs = Blob.objects.using(using)
    unused = set(blobs.filter(~Exists(used)).order_by().values_list("session_id", flat=True))
    rows = blobs.order_by("session_id").values_list("session_id", flat=True).distinct()
    last: UUID | None = None
    while part := list((rows if last is None else rows.filter(session_id__gt=last))[:_PART]):
        for session in part:
            if session in unused or not all(
                are_noted(using, session, messages) for messages in _messages(using, session)
            ):
                yield session
        last = part[-1]


def _messages(using: str, session: UUID) -> Iterator[list[UUID]]:
    """The messages that use binaries, as far as that is noted, in parts."""
    rows = BlobReference.objects.using(using).filter(session=session).order_by("message")
    keys = rows.values_list("message", flat=True).distinct()
    last: UUID | None = None
    while part := list((keys if last is None else keys.filter(message__gt=last))[:_PART]):
        yield part
        last = part[-1]


def _unused(using: str, session: UUID, *, dry_run: bool) -> int:
    used = BlobReference.objects.filter(blob=OuterRef("pk"))
    rows = Blob.objects.using(using).filter(session=session)
    with transaction.atomic(using):
        Session.objects.using(using).select_for_update().filter(pk=session).first()
        before = rows.count()
        # They may have been changed by somebody to whom BLOB_STORAGE was not set.
        for messages in _messages(using, session):
            note_uses(using, session, messages)
        drop_messages(using, session)
        drop(using, list(rows.filter(~Exists(used))))
        after = rows.count()
        if dry_run:
            transaction.set_rollback(True, using)
    return before - after


def _find_orphans(name: str, task: _Task, found: Collection) -> None:
    """Compares the files of a storage with the rows that name them, in all databases."""
    storage = files.storage_of(name)
    prefix = files.folder()
    folders, _ = storing.list_folder(storage, prefix)
    for folder in folders:
        key = _key(folder)
        if key is None:
            # Not ours.
            continue
        path = files.in_folder(prefix, folder)
        # The rows last: a file whose row comes in between is then known.
        _, there = storing.list_folder(storage, path)
        orphans = sorted({f"{path}/{file}" for file in there} - _named(task, key))
        old = [file for file in orphans if _is_old(storage, file, task.older_than)]
        found.young += len(orphans) - len(old)
        if not there and not task.dry_run:
            storing.remove_folder(storage, path)
        if not old:
            continue
        if not task.unknown_too and not _is_known(task, key):
            found.unknown += len(old)
            found.unknown_sessions += 1
            continue
        size = sum(_size(storage, file) for file in old)
        if not task.dry_run:
            storing.delete_files(storage, old)
            storing.remove_folder(storage, path)
        found.bytes += size
        found.files += old


def _named(task: _Task, session: UUID) -> set[str]:
    # Two aliases may lead to the same place.
    return {
        file
        for using in task.databases
        for file in Blob.objects.using(using).filter(session=session).values_list("file", flat=True)
    }


def _is_known(task: _Task, session: UUID) -> bool:
    return any(Session.objects.using(using).filter(pk=session).exists() for using in task.databases)


def _find_lost(name: str, using: str, found: Collection, *, verify: bool) -> None:
    """Compares the rows with their files."""
    rows = Blob.objects.using(using).filter(storage=name).order_by("pk")
    last: UUID | None = None

    def fault(blob: Blob) -> BlobNotFoundError | None:
        return _fault(blob, verify=verify)

    while part := list((rows if last is None else rows.filter(pk__gt=last))[:_PART]):
        faults = dict(zip(part, storing.in_parallel(fault, part), strict=True))
        for outcome in faults.values():
            if outcome is not None and not isinstance(outcome, BlobNotFoundError):
                raise outcome
        suspects = [blob for blob, outcome in faults.items() if outcome is not None]
        # Not what somebody took away meanwhile.
        there = dict(rows.filter(pk__in=[row.pk for row in suspects]).values_list("pk", "file"))
        for blob in suspects:
            if there.get(blob.pk) == blob.file:
                damaged = isinstance(faults[blob], files.DamagedBlobError)
                (found.damaged if damaged else found.missing).append(blob.pk)
        last = part[-1].pk


def _fault(blob: Blob, *, verify: bool) -> BlobNotFoundError | None:
    """Tells what is wrong with a file. Its size is told by opening it, whatever it is kept as."""
    try:
        with contextlib.closing(stream_blob(blob, stop=None if verify else 1)) as stream:
            for _ in stream:
                pass
    except BlobNotFoundError as error:
        return error
    return None


def _key(folder: str) -> UUID | None:
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
        # Somebody deleted it meanwhile; some storages have an error of their own for that.
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
