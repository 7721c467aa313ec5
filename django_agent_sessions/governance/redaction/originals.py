"""Originals of redacted messages, kept because of ``REDACTION_KEEP_ORIGINAL``.

They expire after ``REDACTION_ORIGINAL_TTL``, except under legal hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet
from django.utils import timezone

from django_agent_sessions import conf
from django_agent_sessions.db import bridge
from django_agent_sessions.db.loop_guard import sync_only
from django_agent_sessions.exceptions import EncryptionError, SessionNotFoundError
from django_agent_sessions.governance.session_change import SessionChange, change
from django_agent_sessions.models import AuditEvent, Session, SessionMessage
from django_agent_sessions.models.functions import has_no_original
from django_agent_sessions.store.contents import discard_originals

_SESSION_BATCH = 200
_MESSAGE_BATCH = 200


@sync_only
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

    Raises:
        EncryptionError: A session cannot be decrypted. The others were purged.
    """
    alias = bridge.database(using)
    if before is None:
        before = timezone.now() - timedelta(seconds=conf.get_settings().REDACTION_ORIGINAL_TTL)
    count, failure = 0, None
    for sessions in _redacted_sessions(alias):
        old = _originals(alias, before).filter(session__in=sessions)
        if dry_run:
            count += old.count()
            continue
        for session in list(old.order_by().values_list("session_id", flat=True).distinct()):
            try:
                count += _purge_session(alias, session, before, actor)
            except EncryptionError as error:
                # Originals of other owners must not outlive their time.
                failure = failure or error
    if failure is not None:
        raise failure
    return count


@sync_only
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
        try:
            receipt = change(
                session,
                lambda current: _purge_batch(current, before),
                what=f"purging originals of session {session}",
                actor=actor,
                using=using,
            )
        except SessionNotFoundError:
            return count
        count += receipt.result
        if receipt.result < _MESSAGE_BATCH:
            return count


def _purge_batch(current: SessionChange, before: datetime) -> int:
    using, session = current.using, current.session.pk
    if current.session.legal_hold:
        return 0
    old = _originals(using, before).filter(session=session).order_by()
    keys = list(old.values_list("pk", flat=True)[:_MESSAGE_BATCH])
    if keys:
        # Agents do not read this column, so that the redaction epoch does not change.
        discard_originals(using, session, keys)
        target = keys[0] if len(keys) == 1 else None
        current.record(AuditEvent.Action.ORIGINALS_PURGED, target=target, messages=len(keys))
    return len(keys)
