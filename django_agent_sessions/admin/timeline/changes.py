"""What is done once it is confirmed: by the store, recorded in the same transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from uuid import UUID

from django_agent_sessions import audit
from django_agent_sessions.admin.transcript.viewers import Viewer
from django_agent_sessions.exceptions import SessionNotFoundError
from django_agent_sessions.models import AuditEvent, Session
from django_agent_sessions.owners import EVERYBODY
from django_agent_sessions.records import (
    AgentRecord,
    BranchRecord,
    SessionRecord,
    SnapshotRecord,
)
from django_agent_sessions.store import SessionStore
from django_agent_sessions.store.alone import alone_in
from django_agent_sessions.store.session_reading import session_record

from .targets import Moment, Spot, message_of

_T = TypeVar("_T")


def fork(viewer: Viewer, message: UUID) -> SessionRecord:
    """Makes a session with a copy of the conversation up to a message.

    Args:
        viewer: Who does it in which session.
        message: Primary key of the message.

    Returns:
        The new session.
    """

    def work(store: SessionStore, session: Session) -> SessionRecord:
        made = store.fork(session_record(session), at=message)
        _record(
            viewer,
            AuditEvent.Action.FORKED,
            message,
            fork=str(made.id),
            messages=made.usage.messages,
        )
        return made

    return _alone(viewer, work, "forking")


def rewind(viewer: Viewer, spot: Spot) -> BranchRecord | None:
    """Goes back to a message of a main branch.

    Args:
        viewer: Who does it in which session.
        spot: The message.

    Returns:
        The branch that holds what was said later; None if nothing was.

    Raises:
        Http404: The message is not there any more.
        SessionNotFoundError: It is not on the main branch any more.
    """

    def work(store: SessionStore, session: Session) -> BranchRecord | None:
        # Found anew, while nobody else can move it.
        now = message_of(viewer, spot.key)
        if now.branch:
            raise SessionNotFoundError(f"message {spot.key} is on a side branch")
        made = store.rewind(now.agent, now.position)
        if made is not None:
            later = made.length - made.start
            _record(
                viewer, AuditEvent.Action.REWOUND, spot.key, branch=made.number, set_aside=later
            )
        return made

    return _alone(viewer, work, "rewinding")


def switch(viewer: Viewer, agent: AgentRecord, number: int) -> BranchRecord:
    """Makes a side branch the main one.

    Args:
        viewer: Who does it in which session.
        agent: The agent.
        number: The branch's number.

    Returns:
        The branch that holds what was the main one.
    """

    def work(store: SessionStore, session: Session) -> BranchRecord:
        made = store.switch_branch(agent, number)
        _record(viewer, AuditEvent.Action.RESTORED, agent.id, branch=number, left=made.number)
        return made

    return _alone(viewer, work, "switching")


def delete(viewer: Viewer, agent: AgentRecord, number: int) -> int:
    """Deletes a side branch.

    Args:
        viewer: Who does it in which session.
        agent: The agent.
        number: The branch's number.

    Returns:
        How many messages it had.

    Raises:
        LegalHoldError: The session is under legal hold.
    """

    def work(store: SessionStore, session: Session) -> int:
        deleted = store.delete_branch(agent, number)
        _record(viewer, AuditEvent.Action.BRANCH_DELETED, agent.id, branch=number, messages=deleted)
        return deleted

    return _alone(viewer, work, "deleting a branch")


def restore(viewer: Viewer, moment: Moment) -> SnapshotRecord:
    """Brings an agent back to a snapshot.

    Args:
        viewer: Who does it in which session.
        moment: The snapshot.

    Returns:
        The snapshot, as it is now.
    """

    def work(store: SessionStore, session: Session) -> SnapshotRecord:
        found = store.restore_snapshot(moment.agent, moment.key)
        _record(viewer, AuditEvent.Action.RESTORED, moment.key, messages=found.length)
        return found

    return _alone(viewer, work, "restoring a snapshot")


def _alone(viewer: Viewer, work: Callable[[SessionStore, Session], _T], what: str) -> _T:
    """Does something while every other writer of the session waits, and again if that failed."""
    store = SessionStore(owner=EVERYBODY, using=viewer.using)
    what = f"{what} in session {viewer.session.pk}"
    key = viewer.session.pk
    return alone_in(viewer.using, key, lambda session: work(store, session), what=what)


def _record(viewer: Viewer, action: AuditEvent.Action, target: UUID | None, **details: Any) -> None:
    audit.record(
        action,
        session=viewer.session.pk,
        target=target,
        actor=viewer.request.user,
        details=details,
        using=viewer.using,
    )
