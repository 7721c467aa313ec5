"""The base of views that change a conversation: locked sessions, agents and their branches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from uuid import UUID

from django.http import Http404
from rest_framework import viewsets

from django_agent_sessions.exceptions import SessionNotFoundError
from django_agent_sessions.models import MAIN_BRANCH, Session, SessionAgent, SessionMessage
from django_agent_sessions.models.permissions import SessionPermission
from django_agent_sessions.store import SessionStore
from django_agent_sessions.store.locking import with_session_lock
from django_agent_sessions.values.owners import EVERYBODY
from django_agent_sessions.values.records import AgentRecord, AgentState, BranchRecord

from .base import SessionAPI
from .problems import ReferenceNotFound

T = TypeVar("T")


class ChangeAPI(SessionAPI, viewsets.GenericViewSet[Any]):
    """A view set whose changes hold the session's lock."""

    pagination_class: Any = None

    def store(self) -> SessionStore:
        """Return a store of all owners, for sessions that were checked before."""
        return SessionStore(owner=EVERYBODY, using=self.using)

    def with_locked_session(self, session: Session, work: Callable[[Session], T], what: str) -> T:
        """Run ``work`` in a transaction that holds the session's lock, with the row as it is then.

        Raises ``SessionNotFoundError`` if the session was deleted or has another owner now, and
        ``SessionConflictError`` if the retries did not help. ``what`` names the operation in
        errors.
        """
        what = f"{what} in session {session.pk}"

        def check_owner(row: Session) -> T:
            if row.owner_id != session.owner_id:
                raise SessionNotFoundError(f"{what}: the session has another owner now")
            return work(row)

        return with_session_lock(self.using, session.pk, check_owner, what=what)


class AgentAPI(ChangeAPI):
    """A view of objects that belong to an agent, which the URL names by its primary key."""

    def find_agent(self, key: UUID, *needed: SessionPermission) -> tuple[Session, AgentRecord]:
        """Return the session and the agent without its state; raise ``Http404`` if out of reach."""
        session = self.session_of(SessionAgent.objects.filter(pk=key), *needed)
        columns = ("agent_id", "dialect", "created_at", "updated_at")
        rows = SessionAgent.objects.using(self.using).filter(pk=key)
        values = rows.values_list(*columns).first()
        if values is None:
            raise Http404
        name, dialect, created_at, updated_at = values
        return session, AgentRecord(
            key, session.pk, name, dialect, AgentState(), created_at, updated_at
        )

    def find_branch(self, agent: AgentRecord, number: int) -> BranchRecord:
        for branch in self.store().branches.list(agent):
            if branch.number == number:
                return branch
        raise Http404

    def resolve_position(
        self, agent: AgentRecord, field: str, place: UUID | int, branch: int | None
    ) -> tuple[int, int]:
        """Return the branch number and position of a message that a request names.

        ``place`` is the message's id or its position; -1 is before the first message. ``branch`` is
        ``None`` for any branch. Raises ``ReferenceNotFound`` for ``field`` if there is none.
        """
        rows = SessionMessage.objects.using(self.using).filter(agent=agent.id)
        if isinstance(place, int):
            number = branch or MAIN_BRANCH
            if place >= 0 and not rows.filter(branch=number, message_id=place).exists():
                detail = f"The agent has no message at this position on branch {number}."
                raise ReferenceNotFound(field, detail)
            return number, place
        if branch is not None:
            rows = rows.filter(branch=branch)
        position = rows.filter(pk=place).values_list("branch", "message_id").first()
        if position is None:
            where = "" if branch is None else f" on branch {branch}"
            raise ReferenceNotFound(field, f"The agent has no such message{where}.")
        return position
