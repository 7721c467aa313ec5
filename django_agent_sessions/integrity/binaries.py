"""Looking at large binaries: their rows, who uses them, and their files."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Sequence
from uuid import UUID

from django.db.models import Exists, OuterRef, QuerySet

from django_agent_sessions import payloads, storing
from django_agent_sessions.blobs import collecting, stream_blob
from django_agent_sessions.blobs.files import DamagedBlobError
from django_agent_sessions.exceptions import BlobNotFoundError
from django_agent_sessions.fields import CorruptPayload, read
from django_agent_sessions.models import Blob, BlobReference, SessionMessage
from django_agent_sessions.references import references

from .batch import Batch
from .conversations import Message
from .findings import Finding, Kind
from .pieces import PART, parts


class Binaries:
    """One look at the large binaries of a batch."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        noted = BlobReference.objects.using(batch.using).filter(session__in=batch.sessions)
        self._any = noted.exists()

    def look_at(self, messages: Sequence[Message]) -> None:
        """Compares what messages refer to with what is noted of them."""
        holding = [row for row in messages if _may_hold(row)]
        if not holding and not self._any:
            return
        noted: dict[UUID, set[str]] = defaultdict(set)
        rows = BlobReference.objects.using(self._batch.using).filter(
            session__in=self._batch.sessions, message__in=[row.pk for row in messages]
        )
        for message, sha256 in rows.values_list("message", "blob__sha256"):
            noted[message].add(sha256)
        used = {row.pk: _hashes(row) for row in holding}
        there = self._there(holding, used)
        for row in messages:
            wanted = used.get(row.pk, set())
            if wanted is None:
                continue
            where = {
                "session": row.session,
                "agent": row.agent,
                "branch": row.branch,
                "position": row.position,
                "row": row.pk,
            }
            known = {sha256 for sha256 in wanted if (row.session, sha256) in there}
            if wanted - known:
                self._batch.add(Kind.BLOB_UNKNOWN, **where, detail=f"{len(wanted - known)} unknown")
            if noted.get(row.pk, set()) != known and _hashes(row) is not None:
                self._batch.add(Kind.BLOB_USES, **where)

    def _there(
        self, holding: Sequence[Message], used: dict[UUID, set[str] | None]
    ) -> set[tuple[UUID, str]]:
        hashes = sorted({sha256 for row in holding for sha256 in used[row.pk] or ()})
        found: set[tuple[UUID, str]] = set()
        for start in range(0, len(hashes), PART):
            rows = Blob.objects.using(self._batch.using).filter(
                session__in={row.session for row in holding},
                sha256__in=hashes[start : start + PART],
            )
            found.update(rows.values_list("session_id", "sha256"))
        return found

    def look_at_rows(self) -> None:
        """Looks for binaries that nobody uses, and uses of what is not there."""
        blobs = Blob.objects.using(self._batch.using).filter(session__in=self._batch.sessions)
        unused = blobs.filter(~Exists(BlobReference.objects.filter(blob=OuterRef("pk"))))
        for part in parts(unused, "session_id"):
            for key, session in part:
                self._batch.add(Kind.BLOB_UNUSED, session=session, row=key)
        for part in parts(
            dangling(self._batch.using).filter(session__in=self._batch.sessions), "session_id"
        ):
            for key, session in part:
                self._batch.add(Kind.BLOB_USES, session=session, row=key)

    def look_at_files(self) -> None:
        """Reads the files, and compares them with what was stored."""
        rows = Blob.objects.using(self._batch.using).filter(session__in=self._batch.sessions)
        for part in parts(rows):
            found = list(rows.filter(pk__in=[key for (key,) in part]))
            outcomes = storing.in_parallel(_fault, found)
            for blob, outcome in zip(found, outcomes, strict=True):
                if outcome is None:
                    continue
                kind = Kind.BLOB_STORAGE
                if isinstance(outcome, BlobNotFoundError):
                    damaged = isinstance(outcome, DamagedBlobError)
                    kind = Kind.BLOB_DAMAGED if damaged else Kind.BLOB_MISSING
                self._batch.add(kind, session=blob.session_id, row=blob.pk)


def dangling(using: str) -> QuerySet[BlobReference]:
    """Finds uses of binaries where the message or the binary is not there."""
    message = SessionMessage.objects.filter(pk=OuterRef("message"))
    blob = Blob.objects.filter(pk=OuterRef("blob"))
    return BlobReference.objects.using(using).filter(~Exists(message) | ~Exists(blob))


def look_at_storage(using: str, *, mend: bool) -> tuple[list[Finding], int]:
    """Looks for files that no row names."""
    found = collecting.collect(dry_run=not mend, using=using)
    findings = [
        Finding(Kind.BLOB_STORAGE, detail=f"{alias}: {why}")
        for alias, why in found.failures.items()
    ]
    if found.files:
        detail = f"{len(found.files)} files, {found.bytes} bytes"
        findings.append(Finding(Kind.BLOB_FILES, detail=detail))
    return findings, len(found.files) if mend else 0


def _fault(blob: Blob) -> BlobNotFoundError | None:
    try:
        with contextlib.closing(stream_blob(blob)) as stream:
            for _ in stream:
                pass
    except BlobNotFoundError as error:
        return error
    return None


def _may_hold(row: Message) -> bool:
    return payloads.has_blobs(row.payload) or payloads.has_blobs(row.redacted or "")


def _hashes(row: Message) -> set[str] | None:
    """The hashes of the binaries that a message refers to; None if it cannot be read.

    Somebody may mend it, and needs all that is noted of it then.
    """
    values = [read(text) for text in {row.payload, row.redacted or "null"}]
    if any(isinstance(value, CorruptPayload) for value in values):
        return None
    return {reference.sha256 for _, reference in references(values)}
