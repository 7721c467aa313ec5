"""What a conversation is beside others: branch of an agent, fork of a session, origin of forks."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.http import Http404
from django.urls import reverse

from django_agent_sessions.models import (
    MAIN_BRANCH,
    Branch,
    Session,
    SessionAgent,
    SessionMessage,
)
from django_agent_sessions.windows import Scope

from .viewers import Viewer

FORKS = 20
"""Forks that a page lists."""

_LARGEST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Relative:
    """A session that the viewer may see."""

    name: str
    url: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Kin:
    """Where a session comes from, and what came from it."""

    is_fork: bool
    origin: Relative | None
    """What it was forked from, if that is there and the viewer may see it."""

    forks: list[Relative] = field(default_factory=list)
    more: bool = False

    def __bool__(self) -> bool:
        return self.is_fork or bool(self.forks)


@dataclass(frozen=True, slots=True)
class ShownBranch:
    """The side branch that a page shows."""

    agent: UUID
    agent_id: str
    number: int
    name: str


def kin(model_admin: Any, viewer: Viewer) -> Kin:
    """Finds what a session was forked from, and what was forked from it."""
    session = viewer.session
    rows = model_admin.get_queryset(viewer.request).using(viewer.using)
    rows = rows.only("id", "session_id", "namespace", "owner_id", "created_at").order_by("-id")
    line = rows.filter(forked_from=session.forked_from or session.pk)
    found = list(line.filter(origin__fork__session=str(session.pk))[: FORKS + 1])
    forks = [
        _relative(model_admin, fork)
        for fork in found
        if model_admin.has_view_permission(viewer.request, fork)
    ]
    return Kin(
        is_fork=session.forked_from is not None,
        origin=_origin(model_admin, viewer, rows),
        forks=forks[:FORKS],
        more=len(found) > FORKS,
    )


def _origin(model_admin: Any, viewer: Viewer, rows: Any) -> Relative | None:
    if viewer.session.forked_from is None:
        return None
    told: Any = viewer.session.origin
    row = rows.filter(pk=told["fork"]["session"]).first()
    if row is None or not model_admin.has_view_permission(viewer.request, row):
        return None
    message = told["fork"]["message"]
    return _relative(model_admin, row, f"?at={message}#m-{message}" if message else "")


def _relative(model_admin: Any, row: Session, query: str = "") -> Relative:
    name = f"{model_admin.admin_site.name}:agent_sessions_session_change"
    return Relative(row.session_id, reverse(name, args=[row.pk]) + query, row.created_at)


def branch_number(viewer: Viewer, agent: UUID, given: str) -> int:
    """Reads the number of a branch that an address names."""
    # int() also takes other scripts' digits, spaces and signs.
    number = int(given) if given.isascii() and given.isdigit() and len(given) <= 10 else -1
    if not MAIN_BRANCH <= number <= _LARGEST:
        raise Http404
    if number == MAIN_BRANCH:
        return number
    there = Branch.objects.using(viewer.using).filter(agent=agent, number=number).exists()
    messages = SessionMessage.objects.using(viewer.using).conversation(agent, number)
    # One that was imported need not have a row.
    if not there and not messages.exists():
        raise Http404
    return number


def side_branch_of(viewer: Viewer, message: UUID) -> tuple[UUID, int] | None:
    """Tells of which agent's side branch a message of the session is; None for main ones."""
    rows = SessionMessage.objects.using(viewer.using).filter(session=viewer.session, pk=message)
    found = rows.exclude(branch=MAIN_BRANCH).values_list("agent_id", "branch").first()
    return found


def shown_branch(viewer: Viewer, scope: Scope) -> ShownBranch | None:
    """Names the side branch that a page shows, if it does."""
    if scope.agent is None or scope.branch == MAIN_BRANCH:
        return None
    key, number = scope.agent.pk, scope.branch
    agents = SessionAgent.objects.using(viewer.using).filter(pk=key)
    rows = Branch.objects.using(viewer.using).filter(agent=key, number=number)
    name = rows.values_list("name", flat=True).first() or f"branch-{number}"
    return ShownBranch(key, agents.values_list("agent_id", flat=True).get(), number, name)
