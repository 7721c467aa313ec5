"""Binaries back in their places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db.models import Exists, Q

from django_agent_sessions import conf
from django_agent_sessions.exceptions import BlobNotFoundError
from django_agent_sessions.models import Blob, BlobReference, SessionMessage
from django_agent_sessions.references import BlobRef, references, resolved

from . import files
from .placeholders import with_placeholders
from .rows import of_session


class MessageGoneError(BlobNotFoundError):
    """A message was taken away or changed after it was read, and its binaries with it."""


def restored(
    using: str, session: UUID, payloads: Sequence[Any], dialect: str, *, taken: bool = False
) -> list[Any]:
    """Puts the binaries back into payloads of one session, for an agent to go on with."""
    found, lost, tried = _contents(using, session, payloads)
    if lost:
        if not taken:
            _refuse_outdated(using, session, {sha256: tried.get(sha256, "") for sha256 in lost})
        if not conf.get_settings().BLOB_PLACEHOLDERS:
            raise lost[min(lost)]
        payloads = [with_placeholders(dialect, payload, lost.keys()) for payload in payloads]
    return [resolved(payload, found) for payload in payloads]


def found_in(using: str, session: UUID, payloads: Sequence[Any]) -> list[Any]:
    """Puts those binaries back into payloads of one session that are there, to look into them."""
    found, lost, _ = _contents(using, session, payloads)
    for sha256, error in lost.items():
        if isinstance(error, files.DamagedBlobError):
            raise files.DamagedBlobError(
                f"{error}; restore it, or redact the whole messages that it is in: "
                f"{_messages_with(using, session, sha256)}"
            ) from error
    return [resolved(payload, found) for payload in payloads]


def find_blob(using: str, session: UUID, reference: BlobRef) -> Blob:
    """Finds the row of a binary."""
    found = of_session(using, session, [reference.sha256]).get(reference.sha256)
    if found is None:
        raise _no_row(session)
    return found


def _contents(
    using: str, session: UUID, payloads: Sequence[Any]
) -> tuple[dict[str, bytes], dict[str, BlobNotFoundError], dict[str, str]]:
    """Reads the binaries of payloads."""
    wanted = {ref.sha256 for payload in payloads for _, ref in references(payload)}
    found: dict[str, bytes] = {}
    lost: dict[str, BlobNotFoundError] = {}
    tried: dict[str, str] = {}
    if not wanted:
        return found, lost, tried
    while rows := {
        sha256: row
        for sha256, row in of_session(using, session, wanted - found.keys()).items()
        # One that was not needed any more, and then again, is in another file.
        if tried.get(sha256) != row.file
    }:
        for sha256, content in files.read(rows.values()).items():
            tried[sha256] = rows[sha256].file
            if isinstance(content, bytes):
                found[sha256] = content
            elif isinstance(content, BlobNotFoundError):
                lost[sha256] = content
            else:
                # It may be there in a minute: nothing must be put in its place now.
                raise content
        if wanted <= found.keys():
            break
    for sha256 in wanted - found.keys() - lost.keys():
        lost[sha256] = _no_row(session)
    lost = {sha256: error for sha256, error in lost.items() if sha256 not in found}
    return found, lost, tried


def _refuse_outdated(using: str, session: UUID, lost: Mapping[str, str]) -> None:
    """Refuses to go on with messages that are not there any more, as what is lost tells."""
    messages = SessionMessage.objects.using(using).filter(session=session)
    for sha256, file in lost.items():
        used = Q(message__contains=sha256) | Q(redact_message__contains=sha256)
        # One that was taken away, and then written by somebody again, is in another file.
        elsewhere = Blob.objects.filter(session=session, sha256=sha256).exclude(file=file)
        # In one statement: between two a message could come, or go.
        if not messages.filter(used).exclude(Exists(elsewhere)).exists():
            raise MessageGoneError(
                f"a message of session {session} was taken away or changed while it was read"
            )


def _messages_with(using: str, session: UUID, sha256: str) -> str:
    used = BlobReference.objects.using(using).filter(session=session, blob__sha256=sha256)
    return ", ".join(map(str, used.order_by("message").values_list("message", flat=True)[:20]))


def _no_row(session: UUID) -> BlobNotFoundError:
    return BlobNotFoundError(
        f"session {session} does not have a binary to which a message of it refers; "
        "BLOB_PLACEHOLDERS lets its agents go on without"
    )
