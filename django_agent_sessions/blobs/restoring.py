"""Restoring the binaries in payloads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db.models import Exists, Q, QuerySet

from django_agent_sessions import conf
from django_agent_sessions.content import codec
from django_agent_sessions.content.blob_refs import BlobRef, references, resolve
from django_agent_sessions.db.db_errors import MessageGoneError
from django_agent_sessions.exceptions import BlobNotFoundError
from django_agent_sessions.models import Blob, BlobReference, SessionMessage
from django_agent_sessions.models.stored_text import PAYLOAD_TEXT

from . import blob_files
from .blob_rows import session_blobs
from .placeholders import with_placeholders


def restore_binaries(
    using: str, session: UUID, payloads: Sequence[Any], dialect: str, *, taken: bool = False
) -> list[Any]:
    """Return payloads of one session with their binaries, for an agent.

    Lost binaries raise :exc:`BlobNotFoundError`, or are replaced with ``BLOB_PLACEHOLDERS``. If
    another process changed a message, :exc:`MessageGoneError` is raised, and the caller must read
    it again. ``taken``: the current transaction has removed the messages.
    """
    found, lost, tried = _contents(using, session, payloads)
    if lost:
        if not taken:
            _refuse_outdated(using, session, {sha256: tried.get(sha256, "") for sha256 in lost})
        if not conf.get_settings().BLOB_PLACEHOLDERS:
            raise lost[min(lost)]
        payloads = [with_placeholders(dialect, payload, lost.keys()) for payload in payloads]
    return [resolve(payload, found) for payload in payloads]


def existing_binaries(using: str, session: UUID, payloads: Sequence[Any]) -> list[Any]:
    """Return payloads of one session with the binaries that exist, to search them."""
    found, lost, _ = _contents(using, session, payloads)
    for sha256, error in lost.items():
        if isinstance(error, blob_files.DamagedBlobError):
            raise blob_files.DamagedBlobError(
                f"{error}, or redact the whole messages that use it: "
                f"{_messages_with(using, session, sha256)}"
            ) from error
    return [resolve(payload, found) for payload in payloads]


def find_blob(using: str, session: UUID, reference: BlobRef) -> Blob:
    """Return the row of a binary; raise :exc:`BlobNotFoundError` if there is none."""
    found = session_blobs(using, session, [reference.sha256]).get(reference.sha256)
    if found is None:
        raise _no_row(session)
    return found


def _contents(
    using: str, session: UUID, payloads: Sequence[Any]
) -> tuple[dict[str, bytes], dict[str, BlobNotFoundError], dict[str, str]]:
    """Return the binaries of payloads, the errors of lost ones, and the file names, by hash."""
    wanted = {ref.sha256 for payload in payloads for _, ref in references(payload)}
    found: dict[str, bytes] = {}
    lost: dict[str, BlobNotFoundError] = {}
    tried: dict[str, str] = {}
    if not wanted:
        return found, lost, tried
    while rows := {
        sha256: row
        for sha256, row in session_blobs(using, session, wanted - found.keys()).items()
        # A binary that was dropped and stored again has another file: read that one.
        if tried.get(sha256) != row.file
    }:
        for sha256, content in blob_files.read(rows.values()).items():
            tried[sha256] = rows[sha256].file
            if isinstance(content, bytes):
                found[sha256] = content
            elif isinstance(content, BlobNotFoundError):
                lost[sha256] = content
            else:
                # A temporary error must not result in a placeholder.
                raise content
        if wanted <= found.keys():
            break
    for sha256 in wanted - found.keys() - lost.keys():
        lost[sha256] = _no_row(session)
    lost = {sha256: error for sha256, error in lost.items() if sha256 not in found}
    return found, lost, tried


def _refuse_outdated(using: str, session: UUID, lost: Mapping[str, str]) -> None:
    """Raise :exc:`MessageGoneError` if lost binaries show that a message was changed or deleted."""
    messages = SessionMessage.objects.using(using).filter(session=session)
    for sha256, file in lost.items():
        used = _naming(messages, sha256)
        # A binary that was dropped and stored again has another file.
        elsewhere = Blob.objects.filter(session=session, sha256=sha256).exclude(file=file)
        # One statement, because messages may change between two.
        if not messages.filter(used).exclude(Exists(elsewhere)).exists():
            raise MessageGoneError(
                f"another process changed or deleted a message of session {session} while it was "
                "read: read it again"
            )


def _naming(messages: QuerySet[SessionMessage], sha256: str) -> Q:
    """Return a condition for the messages whose payloads name a binary."""
    if codec.is_plain():
        return Q(message__contains=sha256)
    texts = messages.values_list("pk", PAYLOAD_TEXT)
    return Q(pk__in=[key for key, text in texts.iterator() if sha256 in text])


def _messages_with(using: str, session: UUID, sha256: str) -> str:
    used = BlobReference.objects.using(using).filter(session=session, blob__sha256=sha256)
    return ", ".join(map(str, used.order_by("message").values_list("message", flat=True)[:20]))


def _no_row(session: UUID) -> BlobNotFoundError:
    return BlobNotFoundError(
        f"a message of session {session} refers to a binary that does not exist; set "
        "BLOB_PLACEHOLDERS to return a placeholder text instead"
    )
