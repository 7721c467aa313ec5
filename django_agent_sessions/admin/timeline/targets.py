"""Agents, messages, branches and snapshots that a URL names; Http404 outside of the session."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.http import Http404

from django_agent_sessions.admin.transcript.viewers import Viewer
from django_agent_sessions.exceptions import TargetNotFoundError
from django_agent_sessions.models import MAIN_BRANCH, Branch, SessionAgent, SessionMessage, Snapshot
from django_agent_sessions.timeline import references
from django_agent_sessions.values.records import AgentRecord, BranchRecord


@dataclass(frozen=True, slots=True)
class MessageTarget:
    """The message that a URL names."""

    key: UUID
    agent: AgentRecord
    position: int
    branch: int
    role: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class SnapshotTarget:
    """The snapshot of an agent that a URL names."""

    key: UUID
    agent: AgentRecord
    name: str
    branch: int
    length: int
    created_at: datetime


def get_agent_or_404(viewer: Viewer, key: UUID) -> AgentRecord:
    """Return an agent of the session, without its state."""
    try:
        return references.find_agent(viewer.using, viewer.session.pk, key)
    except TargetNotFoundError:
        raise Http404 from None


def get_selected_agent_or_404(viewer: Viewer) -> AgentRecord:
    """Return the agent of the ``agent`` parameter, or the first one, preferably with branches."""
    value = viewer.request.GET.get("agent")
    if value:
        try:
            return get_agent_or_404(viewer, UUID(value))
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
    return get_agent_or_404(viewer, key)


def get_message_or_404(viewer: Viewer, key: UUID) -> MessageTarget:
    """Return a message of the session, without its content."""
    rows = SessionMessage.objects.using(viewer.using).filter(session=viewer.session, pk=key)
    values = rows.values("agent_id", "message_id", "branch", "role", "created_at").first()
    if values is None:
        raise Http404
    return MessageTarget(
        key=key,
        agent=get_agent_or_404(viewer, values["agent_id"]),
        position=values["message_id"],
        branch=values["branch"],
        role=values["role"],
        created_at=values["created_at"],
    )


def get_snapshot_or_404(viewer: Viewer, key: UUID) -> SnapshotTarget:
    """Return a snapshot of the session that can be restored."""
    rows = Snapshot.objects.using(viewer.using).filter(session=viewer.session, pk=key)
    rows = rows.exclude(agent=None).exclude(snapshot_id="")
    values = rows.values("agent_id", "snapshot_id", "branch", "length", "created_at").first()
    if values is None or values["agent_id"] is None:
        raise Http404
    return SnapshotTarget(
        key=key,
        agent=get_agent_or_404(viewer, values["agent_id"]),
        name=values["snapshot_id"],
        branch=values["branch"],
        length=values["length"],
        created_at=values["created_at"],
    )


def get_branch_or_404(viewer: Viewer, agent: AgentRecord, number: int) -> BranchRecord:
    try:
        return references.find_branch(viewer.using, agent, number)
    except TargetNotFoundError:
        raise Http404 from None


def main_branch_length(viewer: Viewer, agent: AgentRecord) -> int:
    """Return the number of messages of the main branch, from its last position."""
    rows = SessionMessage.objects.using(viewer.using).conversation(agent.id, MAIN_BRANCH)
    last = rows.order_by("-message_id").values_list("message_id", flat=True).first()
    return 0 if last is None else last + 1
