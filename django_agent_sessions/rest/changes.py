"""The base of views of a conversation's agents, branches and snapshots."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from rest_framework import viewsets

from django_agent_sessions.exceptions import TargetNotFoundError
from django_agent_sessions.models import Session, SessionAgent
from django_agent_sessions.models.permissions import SessionPermission
from django_agent_sessions.store import SessionStore
from django_agent_sessions.timeline import Timeline, references
from django_agent_sessions.values.owners import EVERYBODY
from django_agent_sessions.values.records import AgentRecord

from .base import SessionAPI
from .problems import ReferenceNotFound


class ChangeAPI(SessionAPI, viewsets.GenericViewSet[Any]):
    """A view set that changes the timeline of sessions."""

    pagination_class: Any = None

    def store(self) -> SessionStore:
        """Return a store of all owners, for sessions that were checked before."""
        return SessionStore(owner=EVERYBODY, using=self.using)

    def timeline(self, session: Session, *, reason: str | None = None) -> Timeline:
        """Return the services for a session that was checked before."""
        return Timeline(
            session,
            self.request.user,
            self.using,
            via="api",
            records_reads=not self.owns(session),
            limited=True,
            reason=reason,
        )


class AgentAPI(ChangeAPI):
    """A view of objects that belong to an agent, which the URL names by its primary key."""

    def find_agent(self, key: UUID, *needed: SessionPermission) -> tuple[Session, AgentRecord]:
        """Return the session and the agent without its state; raise ``Http404`` if out of reach."""
        session = self.session_of(SessionAgent.objects.filter(pk=key), *needed)
        return session, references.find_agent(self.using, session.pk, key)


@contextmanager
def named_by_fields(**fields: str) -> Iterator[None]:
    """Name the request's field if what it refers to does not exist; ``fields`` are by kind."""
    try:
        yield
    except TargetNotFoundError as error:
        if error.kind not in fields:
            raise
        raise ReferenceNotFound(fields[error.kind], str(error)) from None
