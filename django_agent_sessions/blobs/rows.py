"""Rows of binaries, and which messages use them. The session's row must be locked."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable
from typing import TypeAlias
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, Q

from django_agent_sessions.fields import CorruptPayload
from django_agent_sessions.models import Blob, BlobReference, Session, SessionMessage
from django_agent_sessions.payloads import BLOB_MARKER
from django_agent_sessions.references import references

from . import files

_PART = 500


def of_session(using: str, session: UUID, hashes: Iterable[str]) -> dict[str, Blob]:
    """Finds binaries of a session."""
    wanted = list(hashes)
    found: dict[str, Blob] = {}
    for start in range(0, len(wanted), _PART):
        rows = Blob.objects.using(using).filter(
            session=session, sha256__in=wanted[start : start + _PART]
        )
        found |= {row.sha256: row for row in rows}
    return found


def note_uses(using: str, session: UUID, messages: Collection[UUID]) -> None:
    """Reads anew which binaries messages use, and drops those that none uses any more."""
    keys = list(messages)
    for start in range(0, len(keys), _PART):
        _note_uses(using, session, keys[start : start + _PART])


def are_noted(using: str, session: UUID, messages: Collection[UUID]) -> bool:
    """Tells whether it is noted right which binaries messages use. It needs no lock."""
    there, wanted = _uses(using, session, messages)
    return there.keys() == wanted


def _note_uses(using: str, session: UUID, messages: list[UUID]) -> None:
    there, wanted = _uses(using, session, messages)
    refer(using, session, wanted - there.keys())
    gone = [pair for place, pair in there.items() if place not in wanted]
    if gone:
        BlobReference.objects.using(using).filter(pk__in=[key for key, _ in gone]).delete()
        _drop_unused(using, session, {blob for _, blob in gone})


_Use: TypeAlias = tuple[UUID, str]


def _uses(
    using: str, session: UUID, messages: Collection[UUID]
) -> tuple[dict[_Use, tuple[UUID, UUID]], set[_Use]]:
    """Which binaries messages use: as it is noted, with the keys of the rows, and in fact."""
    found = BlobReference.objects.using(using).filter(session=session, message__in=messages)
    there = {
        (message, sha256): (key, blob)
        for message, sha256, key, blob in found.values_list(
            "message", "blob__sha256", "pk", "blob_id"
        )
    }
    holding = SessionMessage.objects.using(using).filter(
        _holds("message") | _holds("redact_message"), pk__in=messages
    )
    wanted = {
        (key, reference.sha256)
        for key, *columns in holding.values_list("pk", "message", "redact_message")
        for _, reference in references(columns)
    }
    suspects = {message for message, sha256 in there.keys() - wanted}
    unreadable = {
        row.pk
        for row in SessionMessage.objects.using(using).filter(pk__in=suspects)
        if isinstance(row.message, CorruptPayload) or isinstance(row.redact_message, CorruptPayload)
    }
    # Somebody may mend it, and needs them then.
    wanted |= {use for use in there if use[0] in unreadable}
    return there, wanted


def refer(using: str, session: UUID, uses: Collection[tuple[UUID, str]]) -> None:
    """Says that messages use binaries."""
    if uses:
        blobs = of_session(using, session, {sha256 for _, sha256 in uses})
        BlobReference.objects.using(using).bulk_create(
            BlobReference(session_id=session, message=message, blob=blobs[sha256])
            for message, sha256 in sorted(uses)
            # What a damaged row refers to may not be there.
            if sha256 in blobs
        )


def drop_messages(using: str, session: UUID) -> None:
    """Drops what only messages used that are not there any more."""
    here = SessionMessage.objects.filter(pk=OuterRef("message"))
    lost = BlobReference.objects.using(using).filter(~Exists(here), session=session)
    found = list(lost.values_list("pk", "blob_id"))
    for start in range(0, len(found), _PART):
        part = found[start : start + _PART]
        BlobReference.objects.using(using).filter(pk__in=[key for key, _ in part]).delete()
    if found:
        _drop_unused(using, session, {blob for _, blob in found})


def before_session_deletion(instance: Session, using: str, **kwargs: object) -> None:
    """Deletes a session's files when its deletion is committed; for ``pre_delete``."""
    _delete_files(using, Blob.objects.using(using).filter(session=instance.pk))


def _holds(column: str) -> Q:
    return Q(**{f"{column}__contains": BLOB_MARKER})


def _drop_unused(using: str, session: UUID, candidates: Collection[UUID]) -> None:
    used = BlobReference.objects.filter(blob=OuterRef("pk"))
    unused = Blob.objects.using(using).filter(~Exists(used), session=session)
    keys = list(candidates)
    for start in range(0, len(keys), _PART):
        drop(using, list(unused.filter(pk__in=keys[start : start + _PART])))


def drop(using: str, rows: Collection[Blob]) -> None:
    """Deletes rows, and when that is committed their files."""
    if rows:
        _delete_files(using, rows)
        keys = [row.pk for row in rows]
        for start in range(0, len(keys), _PART):
            Blob.objects.using(using).filter(pk__in=keys[start : start + _PART]).delete()


def _delete_files(using: str, rows: Iterable[Blob]) -> None:
    by_storage: dict[str, list[str]] = {}
    for row in rows:
        by_storage.setdefault(row.storage, []).append(row.file)
    for alias, names in by_storage.items():
        # A file that could not be deleted must not hide from the caller that the rest is done.
        transaction.on_commit(functools.partial(files.delete, alias, names), using, robust=True)
