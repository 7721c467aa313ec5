"""Legal hold: a session whose content cannot be deleted until the hold is released."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from django_agent_sessions import audit
from django_agent_sessions.blobs import update_references
from django_agent_sessions.db import bridge
from django_agent_sessions.exceptions import (
    LegalHoldError,
    ReasonRequiredError,
    SessionNotFoundError,
)
from django_agent_sessions.models import AuditEvent, Session, SessionMessage
from django_agent_sessions.models.deletion import TOMBSTONE_NAMESPACE


def hold(session: UUID, *, reason: str, actor: Any = None, using: str | None = None) -> bool:
    """Put a session under legal hold: neither it nor its content can be deleted.

    Returns False if it was under legal hold already.
    """
    return _set(session, True, reason=reason, actor=actor, using=using)


def release(session: UUID, *, reason: str, actor: Any = None, using: str | None = None) -> bool:
    """Release a session from legal hold. Returns False if it was not under legal hold."""
    return _set(session, False, reason=reason, actor=actor, using=using)


def check_and_record_deletion(instance: Session, using: str, **kwargs: Any) -> None:
    """Reject the deletion of a session under legal hold and record any other; for ``pre_delete``.

    Every deletion by the ORM sends this signal, including a cascade from the owner. A session that
    was marked for deletion before has been recorded then.
    """
    # Lock the row, so that no other process can put it under hold before it is deleted.
    row = Session.objects.using(using).select_for_update().filter(pk=instance.pk)
    held, namespace = row.values_list("legal_hold", "namespace").first() or (
        False,
        TOMBSTONE_NAMESPACE,
    )
    if held:
        raise LegalHoldError(
            f"session {instance.session_id!r} is under legal hold; release it first", [instance]
        )
    if namespace != TOMBSTONE_NAMESPACE:
        audit.record(
            AuditEvent.Action.DELETED,
            session=instance.pk,
            details={"messages": instance.message_count},
            using=using,
        )


def _set(session: UUID, held: bool, *, reason: str, actor: Any, using: str | None) -> bool:
    if not reason.strip():
        raise ReasonRequiredError("a legal hold requires a reason")
    alias = bridge.database(using)
    with transaction.atomic(alias):
        rows = Session.objects.using(alias).filter(pk=session)
        # Deleting content reads the flag under a lock of this row, which excludes this lock.
        if rows.select_for_update().values_list("pk").first() is None:
            raise SessionNotFoundError(f"session {session} does not exist")
        changed = rows.exclude(legal_hold=held).update(
            legal_hold=held,
            # Before the change number: MariaDB assigns in this order.
            header_change=F("change") + 1,
            change=F("change") + 1,
            updated_at=timezone.now(),
        )
        if changed:
            action = AuditEvent.Action.HELD if held else AuditEvent.Action.RELEASED
            audit.record(action, session=session, actor=actor, reason=reason, using=alias)
        if changed and not held:
            _discard_originals(session, alias)
    return bool(changed)


def _discard_originals(session: UUID, using: str) -> None:
    """Delete the texts that an agent has replaced: only the hold kept them."""
    changed = SessionMessage.objects.using(using).filter(
        session=session, redacted_at__isnull=True, redact_message__isnull=False
    )
    keys = list(changed.values_list("pk", flat=True))
    if keys:
        changed.update(message=F("redact_message"), redact_message=None)
        update_references(using, session, keys)
