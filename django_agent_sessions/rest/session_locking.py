"""Changes of a conversation's branches, under the session's lock and with their audit event."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from uuid import UUID

from django_agent_sessions import audit
from django_agent_sessions.exceptions import SessionNotFoundError
from django_agent_sessions.models import MAIN_BRANCH, AuditEvent, Session, SessionMessage
from django_agent_sessions.store.locking import with_session_lock

from .problems import ReferenceNotFound

T = TypeVar("T")


def with_locked_session(using: str, session: Session, work: Callable[[Session], T], what: str) -> T:
    """Run ``work`` in a transaction that holds the session's lock, with the row as it is then.

    Raises ``SessionNotFoundError`` if the session was deleted or has another owner now, and
    ``SessionConflictError`` if the retries did not help. ``what`` names the operation in errors.
    """
    what = f"{what} in session {session.pk}"

    def check_owner(row: Session) -> T:
        if row.owner_id != session.owner_id:
            raise SessionNotFoundError(f"{what}: the session has another owner now")
        return work(row)

    return with_session_lock(using, session.pk, check_owner, what=what)


def record_change(
    view: Any, action: AuditEvent.Action, session: Session, target: UUID | None, **details: Any
) -> None:
    """Record a change, in the transaction that makes it; the details hold ids and figures only."""
    audit.record(
        action,
        session=session.pk,
        target=target,
        actor=view.request.user,
        details={"via": "api", **details},
        using=view.using,
    )


def resolve_position(
    using: str, agent: UUID, field: str, place: UUID | int, branch: int | None
) -> tuple[int, int]:
    """Return the branch number and position of a message that a request names.

    ``place`` is the message's id or its position; -1 is before the first message. ``branch`` is
    ``None`` for any branch. Raises ``ReferenceNotFound`` for ``field`` if there is no such message.
    """
    rows = SessionMessage.objects.using(using).filter(agent=agent)
    if isinstance(place, int):
        number = branch or MAIN_BRANCH
        if place >= 0 and not rows.filter(branch=number, message_id=place).exists():
            raise ReferenceNotFound(
                field, f"The agent has no message at this position on branch {number}."
            )
        return number, place
    if branch is not None:
        rows = rows.filter(branch=branch)
    position = rows.filter(pk=place).values_list("branch", "message_id").first()
    if position is None:
        where = "" if branch is None else f" on branch {branch}"
        raise ReferenceNotFound(field, f"The agent has no such message{where}.")
    return position
