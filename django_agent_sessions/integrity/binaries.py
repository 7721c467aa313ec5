"""Checks of large binaries: their rows, their references and their files."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef, QuerySet

from django_agent_sessions.blobs import file_storage, garbage_collection, stream_blob
from django_agent_sessions.blobs.blob_files import DamagedBlobError, cipher_of_file
from django_agent_sessions.content import exact_json
from django_agent_sessions.content.blob_refs import references
from django_agent_sessions.content.sealed_files import FileCipher
from django_agent_sessions.exceptions import (
    BlobNotFoundError,
    DestroyedKeyError,
    EncryptionKeyError,
)
from django_agent_sessions.models import Blob, BlobReference, SessionMessage
from django_agent_sessions.models.fields import CorruptPayload, decode_payload

from .batch import Batch
from .conversations import location
from .findings import Finding, Kind
from .row_batches import PART, key_batches


class BinaryCheck:
    """The check of the binaries of a batch."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        rows = BlobReference.objects.using(batch.using).filter(session__in=batch.sessions)
        self._has_references = rows.exists()

    def check_messages(self, messages: Sequence[Any]) -> None:
        """Compare the binaries that messages contain with the stored references."""
        with_blobs = [row for row in messages if _may_have_blobs(row)]
        if not with_blobs and not self._has_references:
            return
        referenced: dict[UUID, set[str]] = defaultdict(set)
        rows = BlobReference.objects.using(self._batch.using).filter(
            session__in=self._batch.sessions, message__in=[row.pk for row in messages]
        )
        for message, sha256 in rows.values_list("message", "blob__sha256"):
            referenced[message].add(sha256)
        used = {row.pk: _hashes(row) for row in with_blobs}
        existing = self._existing_blobs(with_blobs, used)
        for row in messages:
            hashes = used.get(row.pk, set())
            if hashes is None:
                continue
            known_hashes = {sha256 for sha256 in hashes if (row.session_id, sha256) in existing}
            if hashes - known_hashes:
                unknown = f"{len(hashes - known_hashes)} unknown"
                self._batch.add(Kind.BLOB_UNKNOWN, **location(row), detail=unknown)
            if referenced.get(row.pk, set()) != known_hashes and _hashes(row) is not None:
                self._batch.add(Kind.BLOB_USES, **location(row))

    def _existing_blobs(
        self, messages: Sequence[Any], used: dict[UUID, set[str] | None]
    ) -> set[tuple[UUID, str]]:
        hashes = sorted({sha256 for row in messages for sha256 in used[row.pk] or ()})
        existing: set[tuple[UUID, str]] = set()
        for start in range(0, len(hashes), PART):
            rows = Blob.objects.using(self._batch.using).filter(
                session__in={row.session_id for row in messages},
                sha256__in=hashes[start : start + PART],
            )
            existing.update(rows.values_list("session_id", "sha256"))
        return existing

    def look_at_rows(self) -> None:
        """Find binaries without references, and dangling references."""
        blobs = Blob.objects.using(self._batch.using).filter(session__in=self._batch.sessions)
        unused = blobs.filter(~Exists(BlobReference.objects.filter(blob=OuterRef("pk"))))
        for part in key_batches(unused, "session_id"):
            for key, session in part:
                self._batch.add(Kind.BLOB_UNUSED, session=session, row=key)
        for part in key_batches(
            dangling_references(self._batch.using).filter(session__in=self._batch.sessions),
            "session_id",
        ):
            for key, session in part:
                self._batch.add(Kind.BLOB_USES, session=session, row=key)

    def look_at_files(self) -> None:
        """Read the files and compare their hashes."""
        rows = Blob.objects.using(self._batch.using).filter(session__in=self._batch.sessions)
        for part in key_batches(rows):
            blobs = list(rows.filter(pk__in=[key for (key,) in part]))
            given = list(map(_with_cipher, blobs))
            outcomes = file_storage.in_parallel(_read_error, given)
            for (blob, cipher), outcome in zip(given, outcomes, strict=True):
                if isinstance(cipher, DestroyedKeyError):
                    self._batch.add(Kind.KEY_DESTROYED, session=blob.session_id)
                    continue
                if outcome is None:
                    continue
                kind = Kind.BLOB_STORAGE
                if isinstance(outcome, BlobNotFoundError):
                    damaged = isinstance(outcome, DamagedBlobError)
                    kind = Kind.BLOB_DAMAGED if damaged else Kind.BLOB_MISSING
                self._batch.add(kind, session=blob.session_id, row=blob.pk)


def dangling_references(using: str) -> QuerySet[BlobReference]:
    """Return references whose message or binary does not exist."""
    message = SessionMessage.objects.filter(pk=OuterRef("message"))
    blob = Blob.objects.filter(pk=OuterRef("blob"))
    return BlobReference.objects.using(using).filter(~Exists(message) | ~Exists(blob))


def check_storage_files(using: str, *, mend: bool) -> tuple[list[Finding], int]:
    """Find orphaned files; return the findings and the number of deleted files."""
    collection = garbage_collection.collect(dry_run=not mend, using=using)
    findings = [
        Finding(Kind.BLOB_STORAGE, detail=f"{alias}: {why}")
        for alias, why in collection.failures.items()
    ]
    if collection.files:
        detail = f"{len(collection.files)} files, {collection.bytes} bytes"
        findings.append(Finding(Kind.BLOB_FILES, detail=detail))
    return findings, len(collection.files) if mend else 0


def _with_cipher(blob: Blob) -> tuple[Blob, FileCipher | EncryptionKeyError | None]:
    # A missing key is not the fault of the file.
    try:
        return blob, cipher_of_file(blob)
    except EncryptionKeyError as error:
        return blob, error


def _read_error(
    given: tuple[Blob, FileCipher | EncryptionKeyError | None],
) -> BlobNotFoundError | None:
    blob, cipher = given
    if isinstance(cipher, DestroyedKeyError):
        return None
    if isinstance(cipher, EncryptionKeyError):
        raise cipher
    try:
        with contextlib.closing(stream_blob(blob, cipher=cipher)) as stream:
            for _ in stream:
                pass
    except BlobNotFoundError as error:
        return error
    return None


def _may_have_blobs(row: Any) -> bool:
    return exact_json.has_blobs(row.payload)


def _hashes(row: Any) -> set[str] | None:
    """Return the hashes of the binaries of a message; None if it cannot be read.

    The references of an unreadable message are kept, because a repair of the message needs
    them.
    """
    payload = decode_payload(row.payload)
    if isinstance(payload, CorruptPayload):
        return None
    return {reference.sha256 for _, reference in references(payload)}
