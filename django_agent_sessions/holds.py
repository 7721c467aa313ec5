"""Legal hold: a session that must not lose anything until somebody releases it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from . import audit, bridge
from .batches import DOOMED
from .blobs import note_uses
from .exceptions import LegalHoldError, ReasonRequiredError, SessionNotFoundError
from .models import AuditEvent, Session, SessionMessage


def hold(session: UUID, *, reason: str, actor: Any = None, using: str | None = None) -> bool:
    """Puts a session under legal hold: it cannot be deleted, nor anything said in it."""
    return _set(session, True, reason=reason, actor=actor, using=using)


def release(session: UUID, *, reason: str, actor: Any = None, using: str | None = None) -> bool:
    """Releases a session from legal hold."""
    return _set(session, False, reason=reason, actor=actor, using=using)


def before_deletion(instance: Session, using: str, **kwargs: Any) -> None:
    """Refuses the deletion of a held session and records that of any other; for ``pre_delete``.

    Every way of deleting with the ORM comes past here, a cascade from the owner included. One that
    was set aside before has been recorded then.
    """
    # The row is locked, so that nobody can put it under hold before it is gone.
    row = Session.objects.using(using).select_for_update().filter(pk=instance.pk)
    held, namespace = row.values_list("legal_hold", "namespace").first() or (False, DOOMED)
    if held:
        raise LegalHoldError(
            f"session {instance.session_id!r} is under legal hold; release it first", [instance]
        )
    if namespace != DOOMED:
        audit.record(
            AuditEvent.Action.DELETED,
            session=instance.pk,
            details={"messages": instance.message_count},
            using=using,
        )


def _set(session: UUID, held: bool, *, reason: str, actor: Any, using: str | None) -> bool:
    if not reason.strip():
        raise ReasonRequiredError("a legal hold needs a reason")
    alias = bridge.database(using)
    with transaction.atomic(alias):
        rows = Session.objects.using(alias).filter(pk=session)
        # Alone: who takes something away looks at the row under a lock that this one excludes.
        if rows.select_for_update().values_list("pk").first() is None:
            raise SessionNotFoundError(f"there is no session {session}")
        changed = rows.exclude(legal_hold=held).update(legal_hold=held, updated_at=timezone.now())
        if changed:
            action = AuditEvent.Action.HELD if held else AuditEvent.Action.RELEASED
            audit.record(action, session=session, actor=actor, reason=reason, using=alias)
        if changed and not held:
            _let_go(session, alias)
    return bool(changed)


def _let_go(session: UUID, using: str) -> None:
    """Drops what was said before an agent changed it: only the hold had kept that."""
    changed = SessionMessage.objects.using(using).filter(
        session=session, redacted_at__isnull=True, redact_message__isnull=False
    )
    keys = list(changed.values_list("pk", flat=True))
    if keys:
        changed.update(message=F("redact_message"), redact_message=None)
        note_uses(using, session, keys)
