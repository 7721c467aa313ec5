"""Legal hold: a session whose content cannot be deleted until the hold is released."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db.models import F
from django.utils import timezone

from django_agent_sessions import audit
from django_agent_sessions.db.loop_guard import sync_only
from django_agent_sessions.db.sqlite_secure_delete import secure_delete
from django_agent_sessions.models import AuditEvent, HeldCopy, Session
from django_agent_sessions.models.session_names import SessionName, session_key
from django_agent_sessions.sql.triggers import permit_change

if TYPE_CHECKING:
    from .session_change import SessionChange


@sync_only
def hold(
    session: SessionName,
    *,
    reason: str | None = None,
    actor: Any = None,
    using: str | None = None,
) -> bool:
    """Put a session under legal hold: neither it nor its content can be deleted.

    Returns False if it was under legal hold already.
    """
    return _set(session, True, reason=reason, actor=actor, using=using)


@sync_only
def release(
    session: SessionName,
    *,
    reason: str | None = None,
    actor: Any = None,
    using: str | None = None,
) -> bool:
    """Release a session from legal hold. Returns False if it was not under legal hold."""
    return _set(session, False, reason=reason, actor=actor, using=using)


def set_locked(sessions: Sequence[Session], held: bool, *, using: str) -> None:
    """Hold or release sessions that the open transaction has locked, which are not so yet.

    Each is recorded for the actor of ``audit.acting``.
    """
    keys = [session.pk for session in sessions]
    permit_change(using, [] if held else keys)
    # In this order: MariaDB computes with the values that it has set before.
    Session.objects.using(using).filter(pk__in=keys).update(
        header_change=F("change") + 1,
        change=F("change") + 1,
        legal_hold=held,
        updated_at=timezone.now(),
    )
    action = AuditEvent.Action.HELD if held else AuditEvent.Action.RELEASED
    audit.record_all(action, {key: {} for key in keys}, using=using)
    if not held:
        _delete_copies(keys, using)


def _set(
    session: SessionName, held: bool, *, reason: str | None, actor: Any, using: str | None
) -> bool:
    # Here, because it loads the store, and Django's start loads this module for the admin.
    from .session_change import change

    pk = session_key(session, using)
    action = AuditEvent.Action.HELD if held else AuditEvent.Action.RELEASED

    def apply(current: SessionChange) -> bool:
        row = current.session
        if row.legal_hold == held:
            return False
        # Deleting content reads the flag under a lock of this row, which excludes this lock.
        rows = Session.objects.using(current.using).filter(pk=pk)
        number = row.change + 1
        permit_change(current.using, [] if held else [pk])
        rows.update(legal_hold=held, change=number, header_change=number, updated_at=timezone.now())
        current.record(action)
        if not held:
            _delete_copies([pk], current.using)
        return True

    what = f"changing the legal hold of session {pk}"
    return change(
        pk, apply, what=what, action=action, reason=reason, actor=actor, using=using
    ).result


def _delete_copies(sessions: Collection[UUID], using: str) -> None:
    """Delete what agents and guardrails have overwritten: only the hold kept it."""
    with secure_delete(using):
        HeldCopy.objects.using(using).filter(session__in=sessions).delete()
