"""Changes to a session's timeline, recorded in the audit trail in the same transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from uuid import UUID

from django_agent_sessions import audit
from django_agent_sessions.admin.transcript.viewers import Viewer
from django_agent_sessions.exceptions import SessionNotFoundError
from django_agent_sessions.models import AuditEvent, Session
from django_agent_sessions.store import SessionStore, session_record
from django_agent_sessions.store.locking import with_session_lock
from django_agent_sessions.values.owners import EVERYBODY
from django_agent_sessions.values.records import (
    AgentRecord,
    BranchRecord,
    SessionRecord,
    SnapshotRecord,
)

from .targets import MessageTarget, SnapshotTarget, get_message_or_404

_T = TypeVar("_T")


def fork(viewer: Viewer, message: UUID) -> SessionRecord:
    """Create a session with a copy of the conversation up to and including a message."""

    def operation(store: SessionStore, session: Session) -> SessionRecord:
        forked = store.sessions.fork(session_record(session), at=message)
        _record(
            viewer,
            AuditEvent.Action.FORKED,
            message,
            fork=str(forked.id),
            messages=forked.usage.messages,
        )
        return forked

    return _with_session_lock(viewer, operation, "forking")


def rewind(viewer: Viewer, spot: MessageTarget) -> BranchRecord | None:
    """Rewind an agent's main branch to a message."""

    def operation(store: SessionStore, session: Session) -> BranchRecord | None:
        # Read again under the lock: another process may have moved the message.
        current = get_message_or_404(viewer, spot.key)
        if current.branch:
            raise SessionNotFoundError(f"message {spot.key} is on a side branch")
        side_branch = store.branches.rewind(current.agent, current.position)
        if side_branch is not None:
            later = side_branch.length - side_branch.start
            _record(
                viewer,
                AuditEvent.Action.REWOUND,
                spot.key,
                branch=side_branch.number,
                set_aside=later,
            )
        return side_branch

    return _with_session_lock(viewer, operation, "rewinding")


def switch(viewer: Viewer, agent: AgentRecord, number: int) -> BranchRecord:
    """Make a side branch the main branch."""

    def operation(store: SessionStore, session: Session) -> BranchRecord:
        side_branch = store.branches.switch(agent, number)
        _record(
            viewer, AuditEvent.Action.RESTORED, agent.id, branch=number, left=side_branch.number
        )
        return side_branch

    return _with_session_lock(viewer, operation, "switching")


def delete(viewer: Viewer, agent: AgentRecord, number: int) -> int:
    """Delete a side branch and return its number of messages."""

    def operation(store: SessionStore, session: Session) -> int:
        deleted = store.branches.delete(agent, number)
        _record(viewer, AuditEvent.Action.BRANCH_DELETED, agent.id, branch=number, messages=deleted)
        return deleted

    return _with_session_lock(viewer, operation, "deleting a branch")


def restore(viewer: Viewer, moment: SnapshotTarget) -> SnapshotRecord:
    """Restore an agent to a snapshot."""

    def operation(store: SessionStore, session: Session) -> SnapshotRecord:
        snapshot = store.snapshots.restore(moment.agent, moment.key)
        _record(viewer, AuditEvent.Action.RESTORED, moment.key, messages=snapshot.length)
        return snapshot

    return _with_session_lock(viewer, operation, "restoring a snapshot")


def _with_session_lock(
    viewer: Viewer, operation: Callable[[SessionStore, Session], _T], what: str
) -> _T:
    """Run an operation while the session's row is locked, with retries."""
    store = SessionStore(owner=EVERYBODY, using=viewer.using)
    what = f"{what} in session {viewer.session.pk}"
    key = viewer.session.pk
    return with_session_lock(
        viewer.using, key, lambda session: operation(store, session), what=what
    )


def _record(viewer: Viewer, action: AuditEvent.Action, target: UUID | None, **details: Any) -> None:
    audit.record(
        action,
        session=viewer.session.pk,
        target=target,
        actor=viewer.request.user,
        details=details,
        using=viewer.using,
    )
