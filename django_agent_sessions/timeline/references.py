"""Agents, branches, messages and snapshots of a session, found by their keys and numbers."""

from __future__ import annotations

from uuid import UUID

from django.db.models import QuerySet

from django_agent_sessions.exceptions import TargetNotFoundError
from django_agent_sessions.models import (
    MAIN_BRANCH,
    Branch,
    SessionAgent,
    SessionMessage,
    Snapshot,
)
from django_agent_sessions.store import MAIN_NAME, SessionStore
from django_agent_sessions.store.snapshots import LATEST_SNAPSHOT_ID
from django_agent_sessions.values.owners import EVERYBODY
from django_agent_sessions.values.records import AgentRecord, AgentState, BranchRecord

MAX_POSITION = 2**31 - 1
"""The largest position and branch number."""

_DIGITS = 10


def parse_branch_number(text: str) -> int | None:
    """Parse the number of a branch; return None if no branch can have it."""
    # Python refuses to parse thousands of digits.
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        return None
    number = int(text)
    return number if number <= MAX_POSITION else None


def find_agent(using: str, session: UUID, agent: UUID) -> AgentRecord:
    """Return an agent of a session, without its state."""
    rows = SessionAgent.objects.using(using).filter(session=session, pk=agent)
    values = rows.values("agent_id", "dialect", "created_at", "updated_at").first()
    if values is None:
        raise TargetNotFoundError("agent", "The session has no such agent.")
    return AgentRecord(id=agent, session=session, data=AgentState(), **values)


def find_branch(using: str, agent: AgentRecord, number: int) -> BranchRecord:
    """Return a branch of an agent."""
    for branch in SessionStore(owner=EVERYBODY, using=using).branches.list(agent):
        if branch.number == number:
            return branch
    raise TargetNotFoundError("branch", "The agent has no such branch.")


def has_branch(using: str, agent: UUID, number: int) -> bool:
    """Return whether an agent has a branch, without counting its messages."""
    branches = Branch.objects.using(using).filter(agent=agent, number=number)
    # A branch of an import may have messages and no row.
    messages = SessionMessage.objects.using(using).filter(agent=agent, branch=number)
    return number == MAIN_BRANCH or branches.exists() or messages.exists()


def is_branch_name_taken(using: str, agent: AgentRecord, name: str | None) -> bool:
    """Return whether a new branch cannot have this name; None for the name it has by default."""
    if name is None:
        return False
    rows = Branch.objects.using(using).filter(agent=agent.id, name=name)
    return name == MAIN_NAME or rows.exists()


def has_later_messages(using: str, agent: AgentRecord, branch: int, position: int) -> bool:
    """Return whether a branch has messages after a position."""
    rows = SessionMessage.objects.using(using).filter(agent=agent.id, branch=branch)
    return rows.filter(message_id__gt=position).exists()


def find_position(
    using: str, agent: AgentRecord, place: UUID | int, branch: int | None
) -> tuple[int, int]:
    """Return the branch number and position of a message.

    ``place`` is the message's key or its position; -1 is before the first message. ``branch`` is
    None for any branch.
    """
    rows = SessionMessage.objects.using(using).filter(agent=agent.id)
    if isinstance(place, int):
        number = branch or MAIN_BRANCH
        if place >= 0 and not rows.filter(branch=number, message_id=place).exists():
            detail = f"The agent has no message at this position on branch {number}."
            raise TargetNotFoundError("message", detail)
        return number, place
    rows = rows if branch is None else rows.filter(branch=branch)
    position = rows.filter(pk=place).values_list("branch", "message_id").first()
    if position is None:
        where = "" if branch is None else f" on branch {branch}"
        raise TargetNotFoundError("message", f"The agent has no such message{where}.")
    return position


def restorable_snapshots(using: str, agent: AgentRecord) -> QuerySet[Snapshot]:
    """Return the snapshots of an agent, without their content."""
    rows = Snapshot.objects.using(using).filter(agent=agent.id)
    # The latest "snapshot" is the state of the agent itself.
    return rows.exclude(snapshot_id=LATEST_SNAPSHOT_ID).defer("document", "messages")
