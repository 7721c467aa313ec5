"""What each deletion of a session does, also by the ORM: it is checked, recorded, and signaled."""

from __future__ import annotations

from typing import Any

from django_agent_sessions import audit, signals
from django_agent_sessions.db.write_hooks import send_after_commit
from django_agent_sessions.models import AuditEvent, Session
from django_agent_sessions.models.deletion import ENCRYPTED, TOMBSTONE_NAMESPACE, LockedSessions
from django_agent_sessions.models.removal import refuse_removal


def before_session(instance: Session, using: str, origin: Any = None, **kwargs: Any) -> None:
    """Reject the deletion of a session that must be kept, and record any other; ``pre_delete``.

    Every deletion by the ORM sends this signal, including a cascade from the owner. A session that
    was marked for deletion before has been recorded then.
    """
    if isinstance(origin, LockedSessions):
        return
    # Deletions that begin with the session have locked it.
    row = instance if origin is instance else _locked(instance.pk, using)
    if row is not None:
        before_batch(row, using)


def before_batch(instance: Session, using: str, **kwargs: Any) -> None:
    """The same of a locked session, with each batch of it; for ``session_tombstoned``."""
    refuse_removal(instance)
    if instance.namespace != TOMBSTONE_NAMESPACE:
        details = {"messages": instance.message_count}
        audit.record_checked(
            AuditEvent.Action.DELETED, session=instance.pk, details=details, using=using
        )
        signal_deletion(instance, using)


def signal_deletion(session: Session, using: str) -> None:
    """Send ``session_deleted`` when the deletion is committed."""
    send_after_commit(
        signals.session_deleted,
        using,
        session=session.pk,
        namespace=session.namespace,
        scope=session.scope,
        session_id=session.session_id,
        count=session.message_count,
    )


def _locked(session: Any, using: str) -> Session | None:
    """Lock the row, so that no other process can put it under hold before it is deleted."""
    rows = Session.objects.using(using).select_for_update().defer(*ENCRYPTED)
    return rows.order_by().filter(pk=session).first()
