"""Originals of redacted messages, kept because of ``REDACTION_KEEP_ORIGINAL`` or a legal hold.

They expire after ``REDACTION_ORIGINAL_TTL``, except under legal hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import F, Q, QuerySet
from django.utils import timezone

from django_agent_sessions import audit, conf
from django_agent_sessions.blobs import update_references
from django_agent_sessions.db import bridge
from django_agent_sessions.db.sqlite_secure_delete import secure_delete
from django_agent_sessions.models import AuditEvent, Session, SessionMessage
from django_agent_sessions.models.functions import has_no_original
from django_agent_sessions.store.contents import MessageRef, replace_variants
from django_agent_sessions.store.locking import lock_session, tracked_atomic, write

_SESSION_BATCH = 200
_MESSAGE_BATCH = 200


def purge_originals(
    *,
    before: datetime | None = None,
    actor: Any = None,
    dry_run: bool = False,
    using: str | None = None,
) -> int:
    """Overwrite originals with their redacted versions, and also free pages of SQLite's file.

    Each session is processed in transactions of limited size, so that writers do not wait long
    and an interrupted purge can be continued.

    Args:
        before: Purge the originals of messages redacted before this time; by default
            ``REDACTION_ORIGINAL_TTL`` ago.
        actor: The user, or a text that names a program.
        dry_run: Count the originals, but write nothing.
        using: The database alias.

    Returns:
        The number of originals, without those of sessions under legal hold.
    """
    alias = bridge.database(using)
    if before is None:
        before = timezone.now() - timedelta(seconds=conf.get_settings().REDACTION_ORIGINAL_TTL)
    count = 0
    for sessions in _redacted_sessions(alias):
        old = _originals(alias, before).filter(session__in=sessions)
        if dry_run:
            count += old.count()
            continue
        with secure_delete(alias):
            for session in list(old.order_by().values_list("session_id", flat=True).distinct()):
                count += _purge_session(alias, session, before, actor)
    return count


def original_kept_until(
    session: UUID, message: UUID, *, using: str | None = None
) -> datetime | None:
    """Return when the original of a redacted message expires, or None if there is none."""
    rows = SessionMessage.objects.using(bridge.database(using)).filter(pk=message, session=session)
    rows = rows.filter(redacted_at__isnull=False, redact_message__isnull=False)
    redacted_at = rows.values_list("redacted_at", flat=True).first()
    if redacted_at is None:
        return None
    until: datetime = redacted_at + timedelta(seconds=conf.get_settings().REDACTION_ORIGINAL_TTL)
    if until <= timezone.now() or rows.filter(has_no_original()).exists():
        return None
    return until


def _redacted_sessions(using: str) -> Iterator[list[UUID]]:
    rows = Session.objects.using(using).filter(redaction_epoch__gt=0, legal_hold=False)
    keys = rows.order_by("pk").values_list("pk", flat=True)
    batch = list(keys[:_SESSION_BATCH])
    while batch:
        yield batch
        batch = list(keys.filter(pk__gt=batch[-1])[:_SESSION_BATCH])


def _originals(using: str, before: datetime) -> QuerySet[SessionMessage]:
    return SessionMessage.objects.using(using).filter(
        ~Q(has_no_original()), redacted_at__lt=before, redact_message__isnull=False
    )


def _purge_session(using: str, session: UUID, before: datetime, actor: Any) -> int:
    count = 0
    while True:
        purged = write(
            using,
            lambda uncertain: _purge_batch(using, session, before, actor),
            what=f"purging originals of session {session}",
        )
        count += purged
        if purged < _MESSAGE_BATCH:
            return count


def _purge_batch(using: str, session: UUID, before: datetime, actor: Any) -> int:
    with tracked_atomic(using):
        row = lock_session(using, session)
        if row is None or row.legal_hold:
            # Another process has deleted the session or placed it under legal hold.
            return 0
        old = _originals(using, before).filter(session=session).order_by()
        messages = list(old.values_list("pk", "agent_id", "branch", "message_id")[:_MESSAGE_BATCH])
        keys = [key for key, _, _, _ in messages]
        if keys:
            # Agents do not read this column, so that the redaction epoch does not change.
            SessionMessage.objects.using(using).filter(pk__in=keys).update(
                message=F("redact_message")
            )
            update_references(using, session, keys)
            # The variants in snapshots that a legal hold kept.
            spots = {MessageRef(agent, branch, position) for _, agent, branch, position in messages}
            replace_variants(using, session, spots)
            audit.record(
                AuditEvent.Action.ORIGINALS_PURGED,
                session=session,
                target=keys[0] if len(keys) == 1 else None,
                actor=actor,
                details={"messages": len(keys)},
                using=using,
            )
        return len(keys)
