"""Lists of branches, snapshots and stored objects, without content."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django_agent_sessions.admin.transcript.sidebar import MAX_AGENTS
from django_agent_sessions.admin.transcript.viewers import Viewer
from django_agent_sessions.models import MAIN_BRANCH, Branch, SessionAgent, Snapshot, StoredObject
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.owners import EVERYBODY
from django_agent_sessions.values.records import AgentRecord, BranchRecord

PAGE = 50
"""Rows of a page."""


@dataclass(frozen=True, slots=True)
class BranchRow:
    """A row of the list of branches."""

    branch: BranchRecord
    kind: str
    """Label of the branch's kind; empty for the main branch."""

    parent: str
    """Name of the parent branch."""

    @property
    def main(self) -> bool:
        return self.branch.number == MAIN_BRANCH

    @property
    def own(self) -> int:
        """The number of messages after those of the parent branch."""
        return max(self.branch.length - self.branch.start, 0)


@dataclass(frozen=True, slots=True)
class SnapshotRow:
    """A row of the list of snapshots."""

    key: UUID
    name: str
    holder: str
    """Name of the agent or orchestrator."""

    agent: UUID | None
    branch: int
    branch_name: str
    length: int
    when: datetime
    """Time when it was taken; for the latest one, of the last save."""

    @property
    def latest(self) -> bool:
        """Whether it is the snapshot that each save replaces."""
        return not self.name

    @property
    def restorable(self) -> bool:
        return self.agent is not None and not self.latest


@dataclass(frozen=True, slots=True)
class ListPage:
    """A page of a list with keyset pagination."""

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
    """List snapshots, newest first."""
    rows = Snapshot.objects.using(viewer.using).filter(session=viewer.session).order_by("-id")
    if agent is not None:
        rows = rows.filter(agent=agent.id)
    if before is not None:
        rows = rows.filter(pk__lt=before)
    rows_read = list(
        rows.values_list(
            "id",
            "snapshot_id",
            "agent_id",
            "agent__agent_id",
            "multi_agent__multi_agent_id",
            "branch",
            "length",
            "created_at",
            "updated_at",
        )[: PAGE + 1]
    )
    page = rows_read[:PAGE]
    names = _branch_names(viewer, {row[2] for row in page}, {row[5] for row in page})
    lines = [
        SnapshotRow(
            key,
            name,
            of_agent or of_orchestrator or "",
            agent_key,
            branch,
            names.get((agent_key, branch), f"branch-{branch}" if branch else "main"),
            length,
            # A redaction changes updated_at.
            created if name else updated,
        )
        for key, name, agent_key, of_agent, of_orchestrator, branch, length, created, updated in (
            page
        )
    ]
    return ListPage(lines, str(page[-1][0]) if len(rows_read) > PAGE else "")


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
