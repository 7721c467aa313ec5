"""What an address points at: agents, messages, branches and snapshots of one session only."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.http import Http404

from django_agent_sessions.admin.transcript.viewers import Viewer
from django_agent_sessions.models import (
    MAIN_BRANCH,
    Branch,
    SessionAgent,
    SessionMessage,
    Snapshot,
)
from django_agent_sessions.owners import EVERYBODY
from django_agent_sessions.records import AgentRecord, AgentState, BranchRecord
from django_agent_sessions.store import SessionStore


@dataclass(frozen=True, slots=True)
class Spot:
    """A message that somebody pointed at."""

    key: UUID
    agent: AgentRecord
    position: int
    branch: int
    role: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Moment:
    """A snapshot of an agent that somebody pointed at."""

    key: UUID
    agent: AgentRecord
    name: str
    branch: int
    length: int
    created_at: datetime


def agent_of(viewer: Viewer, key: UUID) -> AgentRecord:
    """Finds an agent of the session, without reading what it keeps.

    Args:
        viewer: Who looks at which session.
        key: Primary key of the agent.

    Returns:
        The agent.

    Raises:
        Http404: It is not of this session.
    """
    rows = SessionAgent.objects.using(viewer.using).filter(session=viewer.session, pk=key)
    found = rows.values("agent_id", "dialect", "created_at", "updated_at").first()
    if found is None:
        raise Http404
    return AgentRecord(id=key, session=viewer.session.pk, data=AgentState(), **found)


def named_agent(viewer: Viewer) -> AgentRecord:
    """Finds the agent that a page is about.

    Args:
        viewer: Who looks at which session; the request may name an agent.

    Returns:
        The agent that is named; else the first with a side branch; else the first.

    Raises:
        Http404: It is not of this session, or the session has no agent.
    """
    given = viewer.request.GET.get("agent")
    if given:
        try:
            return agent_of(viewer, UUID(given))
        except ValueError:
            raise Http404 from None
    branches = Branch.objects.using(viewer.using).filter(session=viewer.session)
    agents = SessionAgent.objects.using(viewer.using).filter(session=viewer.session)
    key = (
        branches.order_by("agent_id").values_list("agent_id", flat=True).first()
        or agents.order_by("id").values_list("pk", flat=True).first()
    )
    if key is None:
        raise Http404
    return agent_of(viewer, key)


def message_of(viewer: Viewer, key: UUID) -> Spot:
    """Finds a message of the session, without its content.

    Args:
        viewer: Who looks at which session.
        key: Primary key of the message.

    Returns:
        The message.

    Raises:
        Http404: It is not of this session.
    """
    rows = SessionMessage.objects.using(viewer.using).filter(session=viewer.session, pk=key)
    found = rows.values("agent_id", "message_id", "branch", "role", "created_at").first()
    if found is None:
        raise Http404
    return Spot(
        key=key,
        agent=agent_of(viewer, found["agent_id"]),
        position=found["message_id"],
        branch=found["branch"],
        role=found["role"],
        created_at=found["created_at"],
    )


def snapshot_of(viewer: Viewer, key: UUID) -> Moment:
    """Finds a snapshot to go back to.

    Args:
        viewer: Who looks at which session.
        key: Primary key of the snapshot.

    Returns:
        The snapshot.

    Raises:
        Http404: It is not of an agent of this session, or is the latest one, which is the present.
    """
    rows = Snapshot.objects.using(viewer.using).filter(session=viewer.session, pk=key)
    rows = rows.exclude(agent=None).exclude(snapshot_id="")
    found = rows.values("agent_id", "snapshot_id", "branch", "length", "created_at").first()
    if found is None or found["agent_id"] is None:
        raise Http404
    return Moment(
        key=key,
        agent=agent_of(viewer, found["agent_id"]),
        name=found["snapshot_id"],
        branch=found["branch"],
        length=found["length"],
        created_at=found["created_at"],
    )


def branch_of(viewer: Viewer, agent: AgentRecord, number: int) -> BranchRecord:
    """Finds a branch of an agent.

    Args:
        viewer: Who looks at which session.
        agent: The agent.
        number: The branch's number.

    Returns:
        The branch.

    Raises:
        Http404: The agent has no such branch.
    """
    for branch in SessionStore(owner=EVERYBODY, using=viewer.using).branches(agent):
        if branch.number == number:
            return branch
    raise Http404


def main_length(viewer: Viewer, agent: AgentRecord) -> int:
    """Tells how many messages the main branch has: positions are dense."""
    rows = SessionMessage.objects.using(viewer.using).conversation(agent.id, MAIN_BRANCH)
    last = rows.order_by("-message_id").values_list("message_id", flat=True).first()
    return 0 if last is None else last + 1
