"""Repair of gaps: renumber positions and everything that refers to them."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import UUID

from django.db.models import F

from django_agent_sessions import audit
from django_agent_sessions.content.message_references import (
    end_of_references,
    is_window,
    move_references,
)
from django_agent_sessions.models import (
    MAIN_BRANCH,
    AuditEvent,
    Branch,
    Session,
    SessionAgent,
    SessionMessage,
    Snapshot,
)
from django_agent_sessions.store.contents import (
    increment_redaction_epoch,
    replace_references,
    replace_window,
)

from .row_batches import PART, row_batches
from .timeline import is_import_incomplete

REPAIR_ACTOR = "agent_sessions_check"

_Change = Callable[[], object]
"""Writes the new positions to a row that refers to positions."""

_MAX_COMPARED = 100_000
"""The most messages of an agent with branches that are compared in memory."""


@dataclass(slots=True)
class PositionMap:
    """The new positions of one branch."""

    runs: list[tuple[int, int]] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)

    def new_position(self, position: int) -> int:
        """Return the new position of a position: the number of messages before it."""
        index = bisect_right([first for first, _ in self.runs], position) - 1
        if index < 0:
            return 0
        first, last = self.runs[index]
        return self.starts[index] + min(position, last + 1) - first

    def has(self, position: int) -> bool:
        """Return whether there is a message at a position."""
        index = bisect_right([first for first, _ in self.runs], position) - 1
        return index >= 0 and position <= self.runs[index][1]

    def moved(self, references: Any) -> Any:
        """Return the references of a snapshot or window to the new positions."""
        return move_references(references, self.new_position, self.has)

    @property
    def closes(self) -> bool:
        """Whether any position changes."""
        return any(run[0] != start for run, start in zip(self.runs, self.starts, strict=True))


def close_gaps(using: str, session: Session, agent: UUID) -> str:
    """Close the gaps on all branches of an agent, in the caller's transaction.

    Redaction relies on copies of a message having the same position on each branch, so all
    branches are renumbered or none. Return the reason if none is, else an empty text.
    """
    if is_import_incomplete(session.origin):
        return "an import of the session is not complete"
    messages = SessionMessage.objects.using(using).filter(agent=agent).order_by()
    branches = sorted(set(messages.values_list("branch", flat=True).distinct()))
    moves = {branch: _moves(using, agent, branch) for branch in branches}
    if not any(branch_moves.closes for branch_moves in moves.values()):
        return ""
    if reason := _conflict_of_copies(using, agent, moves):
        return reason
    changes = _references(using, agent, moves)
    if changes is None:
        return "a window or snapshot of the agent is corrupt"
    for change in changes:
        change()
    free = max(branches) + 1
    changed_branches = 0
    for branch, branch_moves in moves.items():
        if branch_moves.closes:
            changed_branches += 1
            _move(using, agent, branch, branch_moves, free, session.change + 1)
    audit.record_checked(
        AuditEvent.Action.REPAIRED,
        session=session.pk,
        target=agent,
        actor=REPAIR_ACTOR,
        details={"branches": changed_branches},
        using=using,
    )
    # Running agents address messages by position and must read them again.
    increment_redaction_epoch(using, session, redacted=False)
    return ""


def _moves(using: str, agent: UUID, branch: int) -> PositionMap:
    result = PositionMap()
    for first, last in _runs(_positions(using, agent, branch)):
        result.starts.append(result.new_position(first) if result.runs else 0)
        result.runs.append((first, last))
    return result


def _runs(positions: Iterable[int]) -> Iterator[tuple[int, int]]:
    first = last = None
    for position in positions:
        if last is not None and position == last + 1:
            last = position
            continue
        if first is not None and last is not None:
            yield first, last
        first = last = position
    if first is not None and last is not None:
        yield first, last


def _positions(using: str, agent: UUID, branch: int) -> Iterator[int]:
    rows = SessionMessage.objects.using(using).conversation(agent, branch)
    rows_of = rows.values_list("message_id", flat=True)
    last = -1
    while part := list(rows_of.filter(message_id__gt=last)[: 10 * PART]):
        yield from part
        last = part[-1]


def _conflict_of_copies(using: str, agent: UUID, moves: Mapping[int, PositionMap]) -> str:
    """Return a reason if copies of a message would get different positions."""
    if len(moves) == 1:
        return ""
    rows = SessionMessage.objects.using(using).filter(agent=agent).order_by()
    if rows.count() > _MAX_COMPARED:
        return "the agent has several branches and too many messages"
    new_positions: dict[tuple[UUID, int], set[int]] = defaultdict(set)
    for key, source, branch, position in rows.values_list("pk", "source", "branch", "message_id"):
        new_positions[source or key, position].add(moves[branch].new_position(position))
    if any(len(positions) > 1 for positions in new_positions.values()):
        return "different positions are missing on the agent's branches"
    return ""


def _references(using: str, agent: UUID, moves: Mapping[int, PositionMap]) -> list[_Change] | None:
    """Return the changes to rows that refer to positions; None if one cannot be read."""
    changes: list[_Change] = []
    window = SessionAgent.objects.using(using).values_list("window", flat=True).get(pk=agent)
    branch_moves = moves.get(MAIN_BRANCH, PositionMap())
    if not is_window(window):
        return None
    if window is not None and branch_moves.closes:
        changes.append(partial(replace_window, using, agent, branch_moves.moved(window)))
    snapshots = Snapshot.objects.using(using).filter(agent=agent)
    for part in row_batches(snapshots, ("branch", "messages", "length"), ("messages",)):
        for snapshot in part:
            branch_moves = moves.get(snapshot["branch"], PositionMap())
            if end_of_references(snapshot["messages"]) is None:
                return None
            if branch_moves.closes:
                messages = branch_moves.moved(snapshot["messages"])
                length = branch_moves.new_position(snapshot["length"])
                changes.append(partial(replace_references, using, snapshot["pk"], messages, length))
    for branch in Branch.objects.using(using).filter(agent=agent, number__in=moves):
        if (start := moves[branch.number].new_position(branch.start)) != branch.start:
            branches = Branch.objects.using(using).filter(pk=branch.pk)
            changes.append(partial(branches.update, start=start))
    return changes


def _move(using: str, agent: UUID, branch: int, moves: PositionMap, free: int, change: int) -> None:
    """Move messages through an unused branch number, so that no position is taken twice."""
    rows = SessionMessage.objects.using(using).filter(agent=agent).order_by()
    for (first, last), start in zip(moves.runs, moves.starts, strict=True):
        if first != start:
            run = rows.filter(branch=branch, message_id__gte=first, message_id__lte=last)
            run.update(branch=free, message_id=F("message_id") - (first - start))
    rows.filter(branch=free).update(branch=branch, change=change)
