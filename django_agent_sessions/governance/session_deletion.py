"""Delete a session for a user: locked, refused under legal hold, and recorded.

The audit event is written by the receiver of ``pre_delete`` in :mod:`.deletion_record`: the ORM
deletes sessions too: querysets in batches, and cascades from an owner.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django_agent_sessions import audit
from django_agent_sessions.blobs.blob_rows import delete_session_files
from django_agent_sessions.db import bridge
from django_agent_sessions.db.loop_guard import sync_only
from django_agent_sessions.exceptions import SessionNotFoundError
from django_agent_sessions.models import AuditEvent, Session, deletion
from django_agent_sessions.models.session_names import SessionName, session_key
from django_agent_sessions.store.locking import check_removal

from .deletion_record import signal_deletion
from .session_change import SessionChange, change


@sync_only
def delete(
    session: SessionName,
    *,
    reason: str | None = None,
    actor: Any = None,
    via: str = "",
    using: str | None = None,
) -> bool:
    """Delete a session with all its rows, a large one mostly after the commit.

    Returns False if it does not exist. Raises ``LegalHoldError`` if it is under legal hold, and
    ``ReasonRequiredError`` if the setting ``REASON_REQUIRED`` has ``deleted`` and there is none.
    """
    attempted = False
    alias = bridge.database(using)
    audit.refuse_username(actor, using=alias)
    try:
        pk = session_key(session, alias)
    except SessionNotFoundError:
        return False

    def apply(current: SessionChange) -> None:
        nonlocal attempted
        attempted = True
        with audit.acting(actor, via=via, reason=current.reason):
            deletion.delete_after_commit(current.session, current.using)

    try:
        change(
            pk,
            apply,
            what=f"deleting session {pk}",
            action=AuditEvent.Action.DELETED,
            reason=reason,
            using=alias,
        )
    except SessionNotFoundError:
        # Deleted by an attempt whose commit was not confirmed, if there was one.
        return attempted
    return True


def delete_group(sessions: Sequence[Session], using: str) -> None:
    """Delete sessions that the open transaction has locked; the caller records it.

    They are a group of ``deletion.groups``, so that the transaction is short.
    """
    for session in sessions:
        check_removal(session, removes=True)
    keys = [session.pk for session in sessions]
    delete_session_files(using, keys)
    for session in sessions:
        signal_deletion(session, using)
    deletion.LockedSessions(Session, using=using).filter(pk__in=keys).delete()
