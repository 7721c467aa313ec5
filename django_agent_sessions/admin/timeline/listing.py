"""Branches, snapshots and stored objects without content: lists, and what URLs name.

A name of something outside of the session raises Http404.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import Case, QuerySet, When
from django.db.models.functions import Coalesce
from django.http import Http404
from django.shortcuts import get_object_or_404

from django_agent_sessions.admin.pages import parse_key_or_404
from django_agent_sessions.admin.transcript.sidebar import MAX_AGENTS
from django_agent_sessions.admin.transcript.viewers import Viewer
from django_agent_sessions.exceptions import TargetNotFoundError
from django_agent_sessions.models import (
    MAIN_BRANCH,
    Branch,
    SessionAgent,
    SessionMessage,
    Snapshot,
    StoredObject,
)
from django_agent_sessions.store import SessionStore
from django_agent_sessions.timeline import references
from django_agent_sessions.values.owners import EVERYBODY
from django_agent_sessions.values.records import AgentRecord, BranchRecord

PAGE = 50
"""Rows of a page."""


class BranchRow(NamedTuple):
    branch: BranchRecord
    kind: str
    """Label of the branch's kind; empty for the main branch."""

    parent: str
    """Name of the parent branch."""

    own: int
    """The number of messages after those of the parent branch."""

    @property
    def main(self) -> bool:
        return self.branch.number == MAIN_BRANCH


@dataclass(frozen=True, slots=True)
class ListPage:
    lines: list[Any]
    older: str = ""
    """Key at which the next page starts; empty on the last page."""


def branches(viewer: Viewer, agent: AgentRecord, before: int | None) -> ListPage:
    """List an agent's branches: the main branch, then the side branches, newest first."""
    records = SessionStore(owner=EVERYBODY, using=viewer.using).branches.list(agent)
    names = {branch.number: branch.name for branch in records}
    kinds = dict(Branch.Kind.choices)
    lines = [
        BranchRow(
            branch,
            str(kinds.get(branch.kind, branch.kind)),
            names.get(branch.parent, f"branch-{branch.parent}"),
            max(branch.length - branch.start, 0),
        )
        for branch in records
    ]
    main = [line for line in lines if line.main and before is None]
    side = [line for line in lines if not line.main][::-1]
    if before is not None:
        side = [line for line in side if line.branch.number < before]
    page = side[:PAGE]
    older = str(page[-1].branch.number) if len(side) > PAGE else ""
    return ListPage([*main, *page], older)


def snapshots(viewer: Viewer, agent: AgentRecord | None, before: UUID | None) -> ListPage:
    rows = Snapshot.objects.using(viewer.using).filter(session=viewer.session).order_by("-id")
    if agent is not None:
        rows = rows.filter(agent=agent.id)
    if before is not None:
        rows = rows.filter(pk__lt=before)
    annotated = rows.annotate(
        holder=Coalesce("agent__agent_id", "multi_agent__multi_agent_id"),
        # A redaction changes updated_at; each save replaces the latest snapshot, without a name.
        when=Case(When(snapshot_id="", then="updated_at"), default="created_at"),
    )
    columns = ("id", "snapshot_id", "agent_id", "holder", "branch", "length", "when")
    rows_read = list(annotated.values(*columns)[: PAGE + 1])
    page: list[dict[str, Any]] = [{**row} for row in rows_read[:PAGE]]
    names = _branch_names(
        viewer, {row["agent_id"] for row in page}, {row["branch"] for row in page}
    )
    for row in page:
        branch = row["branch"]
        unnamed = f"branch-{branch}" if branch else "main"
        row["branch_name"] = names.get((row["agent_id"], branch), unnamed)
    return ListPage(page, str(page[-1]["id"]) if len(rows_read) > PAGE else "")


def _branch_names(
    viewer: Viewer, agents: set[UUID | None], numbers: set[int]
) -> dict[tuple[UUID | None, int], str]:
    rows = Branch.objects.using(viewer.using).filter(agent__in=agents - {None}, number__in=numbers)
    names: list[tuple[Any, int, str]] = list(rows.values_list("agent_id", "number", "name"))
    return {(agent, number): name for agent, number, name in names}


def objects(viewer: Viewer, after: str) -> ListPage:
    """List the objects that an SDK stored with the session in its own format."""
    rows = StoredObject.objects.using(viewer.using).filter(session=viewer.session)
    if after:
        rows = rows.filter(key__gt=after)
    rows_read = list(rows.order_by("key").values("key", "size", "updated_at")[: PAGE + 1])
    page = rows_read[:PAGE]
    return ListPage(page, page[-1]["key"] if len(rows_read) > PAGE else "")


def agent_choices(viewer: Viewer) -> list[tuple[UUID, str]]:
    """List the keys and names of the session's agents, up to a limit."""
    rows = SessionAgent.objects.using(viewer.using).filter(session=viewer.session)
    return list(rows.order_by("id").values_list("pk", "agent_id")[:MAX_AGENTS])


# --- what a URL names ------------------------------------------------------------------------


class TimelineTarget(NamedTuple):
    """The message, or the snapshot of an agent, that a URL names."""

    key: UUID
    agent: AgentRecord
    branch: int
    position: int
    """Of a message its position, of a snapshot the number of its messages."""

    created_at: datetime


def get_agent_or_404(viewer: Viewer, key: UUID) -> AgentRecord:
    """Return an agent of the session, without its state."""
    try:
        return references.find_agent(viewer.using, viewer.session.pk, key)
    except TargetNotFoundError:
        raise Http404 from None


def get_selected_agent_or_404(viewer: Viewer) -> AgentRecord:
    """Return the agent of the ``agent`` parameter, or the first one, preferably with branches."""
    if selected := parse_key_or_404(viewer.request.GET.get("agent")):
        return get_agent_or_404(viewer, selected)
    branches = Branch.objects.using(viewer.using).filter(session=viewer.session)
    agents = SessionAgent.objects.using(viewer.using).filter(session=viewer.session)
    key = (
        branches.order_by("agent_id").values_list("agent_id", flat=True).first()
        or agents.order_by("id").values_list("pk", flat=True).first()
    )
    if key is None:
        raise Http404
    return get_agent_or_404(viewer, key)


def get_message_or_404(viewer: Viewer, key: UUID) -> TimelineTarget:
    """Return a message of the session, without its content."""
    return _get_target_or_404(viewer, SessionMessage.objects.all(), key, "message_id")


def get_snapshot_or_404(viewer: Viewer, key: UUID) -> TimelineTarget:
    """Return a snapshot of the session that can be restored."""
    rows = Snapshot.objects.exclude(agent=None).exclude(snapshot_id="")
    return _get_target_or_404(viewer, rows, key, "length")


def _get_target_or_404(
    viewer: Viewer, rows: QuerySet[Any], key: UUID, position: str
) -> TimelineTarget:
    rows = rows.using(viewer.using).filter(session=viewer.session, pk=key)
    found: Any = rows.values_list("agent_id", "branch", position, "created_at")
    agent, *values = get_object_or_404(found)
    return TimelineTarget(key, get_agent_or_404(viewer, agent), *values)


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
