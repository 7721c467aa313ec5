"""Changes of a conversation's branches: each alone in its session, and recorded with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from uuid import UUID

from django_agent_sessions import audit
from django_agent_sessions.exceptions import SessionNotFoundError
from django_agent_sessions.models import MAIN_BRANCH, AuditEvent, Session, SessionMessage
from django_agent_sessions.store.alone import alone_in

from .problems import NotThere

T = TypeVar("T")


def alone(using: str, session: Session, work: Callable[[Session], T], what: str) -> T:
    """Does something while every other writer of a session waits, and again if that failed."""
    what = f"{what} in session {session.pk}"

    def of_the_same_owner(found: Session) -> T:
        if found.owner_id != session.owner_id:
            raise SessionNotFoundError(f"{what}: it was given to somebody else")
        return work(found)

    return alone_in(using, session.pk, of_the_same_owner, what=what)


def record(
    view: Any, action: AuditEvent.Action, session: Session, target: UUID | None, **details: Any
) -> None:
    """Records a change, in its transaction."""
    audit.record(
        action,
        session=session.pk,
        target=target,
        actor=view.request.user,
        details={"via": "api", **details},
        using=view.using,
    )


def place_of(
    using: str, agent: UUID, field: str, place: UUID | int, branch: int | None
) -> tuple[int, int]:
    """Finds a message of an agent."""
    rows = SessionMessage.objects.using(using).filter(agent=agent)
    if isinstance(place, int):
        number = branch or MAIN_BRANCH
        if place >= 0 and not rows.filter(branch=number, message_id=place).exists():
            raise NotThere(field, f"The agent has no such position on branch {number}.")
        return number, place
    if branch is not None:
        rows = rows.filter(branch=branch)
    found = rows.filter(pk=place).values_list("branch", "message_id").first()
    if found is None:
        where = "" if branch is None else f" on branch {branch}"
        raise NotThere(field, f"The agent has no such message{where}.")
    return found
