"""The relations of a session and a page: forks, origin and branches."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.http import Http404
from django.urls import reverse

from django_agent_sessions.models import MAIN_BRANCH, Branch, Session, SessionAgent, SessionMessage
from django_agent_sessions.queries.message_pages import MessageQuery
from django_agent_sessions.timeline.references import has_branch, parse_branch_number

from .viewers import Viewer

FORKS = 20
"""The most forks that a page lists."""


@dataclass(frozen=True, slots=True)
class RelatedSession:
    """A related session that the viewer may see."""

    key: UUID
    name: str
    url: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class SessionRelations:
    """The origin of a session, and its forks."""

    is_fork: bool
    origin: RelatedSession | None
    """The session that it was forked from, if it exists and the viewer may see it."""

    forks: list[RelatedSession] = field(default_factory=list)
    more: bool = False

    def __bool__(self) -> bool:
        return self.is_fork or bool(self.forks)


@dataclass(frozen=True, slots=True)
class SideBranch:
    """The side branch that a page shows."""

    agent: UUID
    agent_id: str
    number: int
    name: str


def session_relations(model_admin: Any, viewer: Viewer) -> SessionRelations:
    """Return what a session was forked from, and its forks."""
    session = viewer.session
    rows = model_admin.get_queryset(viewer.request).using(viewer.using)
    rows = rows.only("id", "session_id", "namespace", "owner_id", "created_at").order_by("-id")
    line = rows.filter(forked_from=session.forked_from or session.pk)
    fork_rows = list(line.filter(origin__fork__session=str(session.pk))[: FORKS + 1])
    forks = [
        _related_session(model_admin, fork)
        for fork in fork_rows
        if model_admin.has_view_permission(viewer.request, fork)
    ]
    return SessionRelations(
        is_fork=session.forked_from is not None,
        origin=_origin_session(model_admin, viewer, rows),
        forks=forks[:FORKS],
        more=len(fork_rows) > FORKS,
    )


def _origin_session(model_admin: Any, viewer: Viewer, rows: Any) -> RelatedSession | None:
    if viewer.session.forked_from is None:
        return None
    origin: Any = viewer.session.origin
    row = rows.filter(pk=origin["fork"]["session"]).first()
    if row is None or not model_admin.has_view_permission(viewer.request, row):
        return None
    message = origin["fork"]["message"]
    return _related_session(model_admin, row, f"?at={message}#m-{message}" if message else "")


def _related_session(model_admin: Any, row: Session, query: str = "") -> RelatedSession:
    name = f"{model_admin.admin_site.name}:agent_sessions_session_change"
    url = reverse(name, args=[row.pk]) + query
    return RelatedSession(row.pk, row.session_id, url, row.created_at)


def branch_number(viewer: Viewer, agent: UUID, text: str) -> int:
    """Parse the branch number of a URL; raise Http404 if the agent has no such branch."""
    number = parse_branch_number(text)
    if number is None or not has_branch(viewer.using, agent, number):
        raise Http404
    return number


def side_branch_of(viewer: Viewer, message: UUID) -> tuple[UUID, int] | None:
    """Return the agent and number of the side branch of a message; None on a main branch."""
    rows = SessionMessage.objects.using(viewer.using).filter(session=viewer.session, pk=message)
    agent_and_number = rows.exclude(branch=MAIN_BRANCH).values_list("agent_id", "branch").first()
    return agent_and_number


def selected_side_branch(viewer: Viewer, scope: MessageQuery) -> SideBranch | None:
    """Return the side branch that a page shows, if any."""
    if scope.agent is None or scope.branch == MAIN_BRANCH:
        return None
    key, number = scope.agent.pk, scope.branch
    agents = SessionAgent.objects.using(viewer.using).filter(pk=key)
    rows = Branch.objects.using(viewer.using).filter(agent=key, number=number)
    name = rows.values_list("name", flat=True).first() or f"branch-{number}"
    return SideBranch(key, agents.values_list("agent_id", flat=True).get(), number, name)
