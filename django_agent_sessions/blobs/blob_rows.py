"""Rows of binaries and of their uses by messages. Writing requires the session's lock."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TypeAlias
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet

from django_agent_sessions.content import codec
from django_agent_sessions.content.blob_refs import references
from django_agent_sessions.content.exact_json import BLOB_MARKER
from django_agent_sessions.exceptions import EncryptionError
from django_agent_sessions.models import Blob, BlobReference, Session, SessionMessage
from django_agent_sessions.models.deletion import LockedSessions
from django_agent_sessions.models.fields import CorruptPayload

from . import files_to_delete
from .files_to_delete import StoredFile

_BATCH = 500


def session_blobs(using: str, session: UUID, hashes: Iterable[str]) -> dict[str, Blob]:
    """Return the binaries of a session by hash."""
    wanted = list(hashes)
    blobs: dict[str, Blob] = {}
    for start in range(0, len(wanted), _BATCH):
        rows = Blob.objects.using(using).filter(
            session=session, sha256__in=wanted[start : start + _BATCH]
        )
        blobs |= {row.sha256: row for row in rows}
    return blobs


def update_references(using: str, session: UUID, messages: Collection[UUID]) -> None:
    """Update the references of messages to binaries, and drop unused binaries."""
    keys = list(messages)
    for start in range(0, len(keys), _BATCH):
        _note_uses(using, session, keys[start : start + _BATCH])


def references_are_correct(using: str, session: UUID, messages: Collection[UUID]) -> bool:
    """Return whether the references of messages to binaries are correct. Requires no lock."""
    stored, wanted = _uses(using, session, messages)
    return stored.keys() == wanted


def _note_uses(using: str, session: UUID, messages: list[UUID]) -> None:
    stored, wanted = _uses(using, session, messages)
    create_references(using, session, wanted - stored.keys())
    obsolete = [row_keys for use, row_keys in stored.items() if use not in wanted]
    if obsolete:
        BlobReference.objects.using(using).filter(pk__in=[key for key, _ in obsolete]).delete()
        _drop_unused(using, session, {blob for _, blob in obsolete})


_Use: TypeAlias = tuple[UUID, str]


def _uses(
    using: str, session: UUID, messages: Collection[UUID]
) -> tuple[dict[_Use, tuple[UUID, UUID]], set[_Use]]:
    """Return the stored references with their keys, and the actual uses."""
    stored_rows = BlobReference.objects.using(using).filter(session=session, message__in=messages)
    stored = {
        (message, sha256): (key, blob)
        for message, sha256, key, blob in stored_rows.values_list(
            "message", "blob__sha256", "pk", "blob_id"
        )
    }
    with_binaries = SessionMessage.objects.using(using).filter(_holds("message"), pk__in=messages)
    try:
        wanted = _uses_of(with_binaries)
    except EncryptionError:
        wanted = set()
        for message in with_binaries.values_list("pk", flat=True):
            try:
                wanted |= _uses_of(with_binaries.filter(pk=message))
            except EncryptionError:
                # Like a corrupt message; its key may have been destroyed.
                wanted |= {use for use in stored if use[0] == message}
    suspects = {message for message, sha256 in stored.keys() - wanted}
    unreadable = {
        row.pk
        for row in SessionMessage.objects.using(using).filter(pk__in=suspects)
        if isinstance(row.message, CorruptPayload)
    }
    # A corrupt message may be repaired, and then needs its binaries.
    wanted |= {use for use in stored if use[0] in unreadable}
    return stored, wanted


def _uses_of(rows: QuerySet[SessionMessage]) -> set[_Use]:
    return {
        (key, reference.sha256)
        for key, payload in rows.values_list("pk", "message")
        for _, reference in references(payload)
    }


def create_references(using: str, session: UUID, uses: Collection[tuple[UUID, str]]) -> None:
    """Create references from messages to binaries."""
    if uses:
        blobs = session_blobs(using, session, {sha256 for _, sha256 in uses})
        BlobReference.objects.using(using).bulk_create(
            BlobReference(session_id=session, message=message, blob=blobs[sha256])
            for message, sha256 in sorted(uses)
            # A damaged row may refer to a binary that does not exist.
            if sha256 in blobs
        )


def delete_unreferenced(using: str, session: UUID) -> None:
    """Drop the binaries that only deleted messages used."""
    existing = SessionMessage.objects.filter(pk=OuterRef("message"))
    orphans = BlobReference.objects.using(using).filter(~Exists(existing), session=session)
    orphan_keys = list(orphans.values_list("pk", "blob_id"))
    for start in range(0, len(orphan_keys), _BATCH):
        batch = orphan_keys[start : start + _BATCH]
        BlobReference.objects.using(using).filter(pk__in=[key for key, _ in batch]).delete()
    if orphan_keys:
        _drop_unused(using, session, {blob for _, blob in orphan_keys})


def before_session_deletion(
    instance: Session, using: str, origin: object = None, **kwargs: object
) -> None:
    """Delete a session's files when its deletion is committed; receiver of ``pre_delete``."""
    if not isinstance(origin, LockedSessions):
        delete_session_files(using, [instance.pk])


def delete_session_files(using: str, sessions: Collection[UUID]) -> None:
    """Delete the files of sessions when the open transaction is committed."""
    _delete_files(using, Blob.objects.using(using).filter(session__in=sessions))


def _holds(column: str) -> Q:
    return Q(**{f"{column}__contains": BLOB_MARKER}) if codec.is_plain() else Q()


def _drop_unused(using: str, session: UUID, candidates: Collection[UUID]) -> None:
    used = BlobReference.objects.filter(blob=OuterRef("pk"))
    unused = Blob.objects.using(using).filter(~Exists(used), session=session)
    keys = list(candidates)
    for start in range(0, len(keys), _BATCH):
        delete_blobs(using, list(unused.filter(pk__in=keys[start : start + _BATCH])))


def delete_blobs(using: str, rows: Collection[Blob]) -> None:
    """Delete rows, and their files on commit."""
    if rows:
        _delete_files(using, rows)
        keys = [row.pk for row in rows]
        for start in range(0, len(keys), _BATCH):
            Blob.objects.using(using).filter(pk__in=keys[start : start + _BATCH]).delete()


def _delete_files(using: str, rows: Iterable[Blob]) -> None:
    files = [StoredFile(row.session_id, row.storage, row.file) for row in rows]
    files_to_delete.delete_files_after_commit(using, files)
