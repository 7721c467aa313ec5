"""Moving large binaries that are in messages already to the storage of large binaries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db.models import Func, IntegerField, Q

from django_agent_sessions import bridge, conf
from django_agent_sessions.blobs import Uploads, extracted, in_use, note_uses
from django_agent_sessions.exceptions import AgentSessionsError, BlobError, ConfigurationError
from django_agent_sessions.fields import CorruptPayload
from django_agent_sessions.models import SessionMessage
from django_agent_sessions.references import BlobRef, references
from django_agent_sessions.transient import TryAgainError

from .alone import lock_session
from .base import whole, write

_PART = 200
_REFUSALS = 10
"""After so many files in a row that could not be stored, it is the storage."""


@dataclass(slots=True)
class Offloaded:
    """What was moved, or would be."""

    messages: int = 0
    binaries: int = 0
    bytes: int = 0
    failures: dict[UUID, AgentSessionsError] = field(default_factory=dict)
    given_up: bool = False


@dataclass(frozen=True, slots=True)
class _Lighter:
    """A message without its binaries."""

    id: UUID
    columns: Mapping[str, Any]
    binaries: Mapping[BlobRef, bytes]

    @property
    def hashes(self) -> set[str]:
        return {reference.sha256 for _, reference in references([*self.columns.values()])}


def offload(*, dry_run: bool = False, using: str | None = None) -> Offloaded:
    """Moves the binaries of all messages to ``BLOB_STORAGE``.

    Each message is a transaction of its own, so that agents go on meanwhile, and one that was
    interrupted goes on where it was. To whoever reads it, a message is what it was: neither its
    revision nor the session's redaction epoch moves. What is in the database already may be over
    the limits of today. A message that cannot be moved stays as it was, and the others go on.
    """
    if not in_use():
        raise ConfigurationError(
            "AGENT_SESSIONS['BLOB_STORAGE'] does not say where large binaries are to go"
        )
    alias = bridge.database(using)
    done = Offloaded()
    refusals = 0
    for key in _large_messages(alias):
        try:
            binaries = _offload(alias, key, dry_run=dry_run)
        except ConfigurationError:
            raise
        except AgentSessionsError as error:
            done.failures[key] = error
            refusals = refusals + 1 if isinstance(error, BlobError) else 0
            if refusals == _REFUSALS:
                done.given_up = True
                break
            continue
        refusals = 0
        done.messages += bool(binaries)
        done.binaries += len(binaries)
        done.bytes += sum(reference.size for reference in binaries)
    return done


def _large_messages(using: str) -> Iterator[UUID]:
    size = Func("message", function="LENGTH", output_field=IntegerField())
    redacted = Func("redact_message", function="LENGTH", output_field=IntegerField())
    # As base64, and so in characters, they are a third longer.
    least = conf.get_settings().BLOB_MIN_BYTES * 4 // 3
    rows = SessionMessage.objects.using(using).order_by("pk").values_list("pk", flat=True)
    last: UUID | None = None
    while True:
        heads = rows if last is None else rows.filter(pk__gt=last)
        # By key first: else each part would look at all that is small.
        part = list(heads[:_PART])
        if not part:
            return
        large = rows.filter(pk__in=part).annotate(size=size, redacted_size=redacted)
        yield from list(large.filter(Q(size__gte=least) | Q(redacted_size__gte=least)))
        last = part[-1]


def _offload(using: str, key: UUID, *, dry_run: bool) -> list[BlobRef]:
    def move(unsure: bool) -> list[BlobRef]:
        return _move(using, key, dry_run=dry_run)

    return write(using, move, what=f"moving binaries of message {key}")


def _move(using: str, key: UUID, *, dry_run: bool) -> list[BlobRef]:
    rows = SessionMessage.objects.using(using).filter(pk=key)
    row = rows.first()
    if row is None or (lighter := _lighter(row)) is None:
        return []
    found = list(lighter.binaries)
    if dry_run:
        return found
    uploads = Uploads(using, row.session_id, [lighter])
    try:
        with uploads.attempt(), whole(using):
            lock_session(using, row.session_id)
            uploads.store()
            unchanged = rows.filter(revision=row.revision, redacted_at=row.redacted_at)
            if not unchanged.update(**lighter.columns):
                raise TryAgainError
            note_uses(using, row.session_id, [key])
    except TryAgainError:
        # The message is read anew then, and what was taken out of this one is of no use.
        uploads.discard()
        raise
    return found


def _lighter(row: SessionMessage) -> _Lighter | None:
    columns: dict[str, Any] = {}
    binaries: dict[BlobRef, bytes] = {}
    for name in ("message", "redact_message"):
        value = getattr(row, name)
        if value is None or isinstance(value, CorruptPayload):
            continue
        parts = extracted(value, limited=False)
        if parts.binaries:
            columns[name] = parts.value
            binaries |= parts.binaries
    return _Lighter(row.pk, columns, binaries) if columns else None
