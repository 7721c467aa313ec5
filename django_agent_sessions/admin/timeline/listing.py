"""Branches, snapshots and stored objects as pages list them: figures and names, no content."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django_agent_sessions.admin.transcript.heads import AGENTS
from django_agent_sessions.admin.transcript.viewers import Viewer
from django_agent_sessions.models import (
    MAIN_BRANCH,
    Branch,
    SessionAgent,
    Snapshot,
    StoredObject,
)
from django_agent_sessions.owners import EVERYBODY
from django_agent_sessions.records import AgentRecord, BranchRecord
from django_agent_sessions.store import SessionStore

PAGE = 50
"""Rows of a page."""


@dataclass(frozen=True, slots=True)
class BranchLine:
    """A branch of a list."""

    branch: BranchRecord
    kind: str
    """How it came to be, in words; empty for the main one."""

    parent: str
    """Name of the branch that it left."""

    @property
    def main(self) -> bool:
        """Whether it is the main one."""
        return self.branch.number == MAIN_BRANCH

    @property
    def own(self) -> int:
        """How many messages it has that the branch it left had not."""
        return max(self.branch.length - self.branch.start, 0)


@dataclass(frozen=True, slots=True)
class SnapshotLine:
    """A snapshot of a list."""

    key: UUID
    name: str
    holder: str
    """Name of the agent or orchestrator."""

    agent: UUID | None
    branch: int
    branch_name: str
    length: int
    when: datetime
    """When it was taken; of the latest one, when it was saved last."""

    @property
    def latest(self) -> bool:
        """Whether it is the one that each save replaces."""
        return not self.name

    @property
    def restorable(self) -> bool:
        """Whether an agent can be brought back to it."""
        return self.agent is not None and not self.latest


@dataclass(frozen=True, slots=True)
class Listed:
    """A page of a list that is paged by key."""

    lines: list[Any]
    older: str = ""
    """Where the next page begins; empty if there is none."""


def branches(viewer: Viewer, agent: AgentRecord, before: int | None) -> Listed:
    """Lists an agent's branches: the main one, then the newest.

    Args:
        viewer: Who looks at which session.
        agent: The agent.
        before: The number that the page before ended with, if there is one.

    Returns:
        The page.
    """
    found = SessionStore(owner=EVERYBODY, using=viewer.using).branches(agent)
    names = {branch.number: branch.name for branch in found}
    kinds = dict(Branch.Kind.choices)
    lines = [
        BranchLine(
            branch,
            str(kinds.get(branch.kind, branch.kind)),
            names.get(branch.parent, f"branch-{branch.parent}"),
        )
        for branch in found
    ]
    main = [line for line in lines if line.main and before is None]
    side = [line for line in lines if not line.main][::-1]
    if before is not None:
        side = [line for line in side if line.branch.number < before]
    shown = side[:PAGE]
    older = str(shown[-1].branch.number) if len(side) > PAGE else ""
    return Listed([*main, *shown], older)


def snapshots(viewer: Viewer, agent: AgentRecord | None, before: UUID | None) -> Listed:
    """Lists snapshots, the newest first.

    Args:
        viewer: Who looks at which session.
        agent: Whose snapshots; None for all of the session, orchestrators' included.
        before: Primary key of the last one of the page before, if there is one.

    Returns:
        The page.
    """
    rows = Snapshot.objects.using(viewer.using).filter(session=viewer.session).order_by("-id")
    if agent is not None:
        rows = rows.filter(agent=agent.id)
    if before is not None:
        rows = rows.filter(pk__lt=before)
    found = list(
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
    shown = found[:PAGE]
    names = _branch_names(viewer, {row[2] for row in shown}, {row[5] for row in shown})
    lines = [
        SnapshotLine(
            key,
            name,
            of_agent or of_orchestrator or "",
            agent_key,
            branch,
            names.get((agent_key, branch), f"branch-{branch}" if branch else "main"),
            length,
            # A redaction moves the second.
            created if name else updated,
        )
        for key, name, agent_key, of_agent, of_orchestrator, branch, length, created, updated in (
            shown
        )
    ]
    return Listed(lines, str(shown[-1][0]) if len(found) > PAGE else "")


def _branch_names(
    viewer: Viewer, agents: set[UUID | None], numbers: set[int]
) -> dict[tuple[UUID | None, int], str]:
    rows = Branch.objects.using(viewer.using).filter(agent__in=agents - {None}, number__in=numbers)
    found: list[tuple[Any, int, str]] = list(rows.values_list("agent_id", "number", "name"))
    return {(agent, number): name for agent, number, name in found}


def objects(viewer: Viewer, after: str) -> Listed:
    """Lists what an SDK stored with the session and is kept as written.

    Args:
        viewer: Who looks at which session.
        after: The key that the page before ended with; empty for the first page.

    Returns:
        The page, in order of the keys.
    """
    rows = StoredObject.objects.using(viewer.using).filter(session=viewer.session)
    if after:
        rows = rows.filter(key__gt=after)
    found = list(rows.order_by("key").values("key", "size", "updated_at")[: PAGE + 1])
    shown = found[:PAGE]
    return Listed(shown, shown[-1]["key"] if len(found) > PAGE else "")


def agents(viewer: Viewer) -> list[tuple[UUID, str]]:
    """Lists the session's agents by key and name, as many as a page lists."""
    rows = SessionAgent.objects.using(viewer.using).filter(session=viewer.session)
    return list(rows.order_by("id").values_list("pk", "agent_id")[:AGENTS])
