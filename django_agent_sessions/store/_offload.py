"""Move large binaries from existing messages to the blob storage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from uuid import UUID

from django.db.models import Func, IntegerField

from django_agent_sessions import conf
from django_agent_sessions.blobs import Uploads, extract_binaries, is_enabled, update_references
from django_agent_sessions.content.blob_refs import BlobRef, references
from django_agent_sessions.db import bridge
from django_agent_sessions.db.db_errors import RetryError
from django_agent_sessions.db.retries import tracked_atomic, write
from django_agent_sessions.exceptions import AgentSessionsError, BlobError, ConfigurationError
from django_agent_sessions.models import SessionMessage
from django_agent_sessions.models.content_field import sealed_columns
from django_agent_sessions.models.fields import CorruptPayload
from django_agent_sessions.sql.triggers import permit_change

from .locking import lock_session

_PART = 200
_MAX_STORAGE_ERRORS = 10
"""Consecutive storage errors after which the run stops."""


@dataclass(slots=True)
class OffloadResult:
    """What was moved, or would be."""

    messages: int = 0
    binaries: int = 0
    bytes: int = 0
    failures: dict[UUID, AgentSessionsError] = field(default_factory=dict)
    given_up: bool = False


def move_binaries_to_storage(*, dry_run: bool = False, using: str | None = None) -> OffloadResult:
    """Move the large binaries of all messages to ``BLOB_STORAGE``.

    Each message is moved in its own transaction, so that agents continue meanwhile and an
    interrupted run can be resumed. The content of a message stays the same; neither its revision
    nor the redaction epoch changes. The current size limits do not apply. A message that cannot be
    moved stays unchanged and is reported in ``failures``; after several storage errors in a row the
    run stops.

    Raises ConfigurationError if ``BLOB_STORAGE`` is not set.
    """
    if not is_enabled():
        raise ConfigurationError(
            "AGENT_SESSIONS['BLOB_STORAGE'] is not set; configure a storage for large binaries"
        )
    alias = bridge.database(using)
    result = OffloadResult()
    storage_errors = 0
    for key in _large_messages(alias):
        try:
            binaries = _offload(alias, key, dry_run=dry_run)
        except ConfigurationError:
            raise
        except AgentSessionsError as error:
            result.failures[key] = error
            storage_errors = storage_errors + 1 if isinstance(error, BlobError) else 0
            if storage_errors == _MAX_STORAGE_ERRORS:
                result.given_up = True
                break
            continue
        storage_errors = 0
        result.messages += bool(binaries)
        result.binaries += len(binaries)
        result.bytes += sum(reference.size for reference in binaries)
    return result


def _large_messages(using: str) -> Iterator[UUID]:
    size = Func("message", function="LENGTH", output_field=IntegerField())
    # Binaries are base64 in the payload: a third longer.
    minimum = conf.get_settings().BLOB_MIN_BYTES * 4 // 3
    rows = SessionMessage.objects.using(using).order_by("pk").values_list("pk", flat=True)
    last: UUID | None = None
    while True:
        next_keys = rows if last is None else rows.filter(pk__gt=last)
        # Pages of keys first: otherwise each page would scan all small messages.
        keys = list(next_keys[:_PART])
        if not keys:
            return
        yield from list(rows.filter(pk__in=keys).annotate(size=size).filter(size__gte=minimum))
        last = keys[-1]


def _offload(using: str, key: UUID, *, dry_run: bool) -> list[BlobRef]:
    def move(unsure: bool) -> list[BlobRef]:
        return _move(using, key, dry_run=dry_run)

    return write(using, move, what=f"moving binaries of message {key}")


def _move(using: str, key: UUID, *, dry_run: bool) -> list[BlobRef]:
    rows = SessionMessage.objects.using(using).filter(pk=key)
    row = rows.first()
    if row is None or isinstance(row.message, CorruptPayload):
        return []
    lighter = extract_binaries(row.message, limited=False)
    binaries = list(lighter.binaries)
    if dry_run or not binaries:
        return binaries
    hashes = {reference.sha256 for _, reference in references(lighter.value)}
    uploads = Uploads(using, row.session_id, {key: hashes}, lighter.binaries)
    try:
        with uploads.attempt(), tracked_atomic(using):
            lock_session(using, row.session_id)
            uploads.store()
            permit_change(using, [row.session_id])
            unchanged = rows.filter(revision=row.revision, redacted_at=row.redacted_at)
            sealed = sealed_columns(SessionMessage, key, {"message": lighter.value}, row.session_id)
            if not unchanged.update(**sealed):
                raise RetryError
            update_references(using, row.session_id, [key])
    except RetryError:
        # The message is read again, so these uploads are obsolete.
        uploads.discard()
        raise
    return binaries
