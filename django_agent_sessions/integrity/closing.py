"""Closing up positions that are missing, and all that refers to positions with them."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db.models import F, Model

from django_agent_sessions import audit
from django_agent_sessions.fields import CorruptPayload
from django_agent_sessions.models import (
    MAIN_BRANCH,
    AuditEvent,
    Branch,
    Session,
    SessionAgent,
    SessionMessage,
    Snapshot,
)
from django_agent_sessions.store.redacting import move_epoch

from .pieces import PART, large
from .timeline import is_arriving

ACTOR = "check_agent_sessions"

_Change = tuple[type[Model], UUID, dict[str, Any]]
"""A row that refers to positions: its table, its key, and what its columns are to be."""

_MOST_COPIES = 100_000
"""Messages of an agent with branches whose places are compared in memory."""


@dataclass(slots=True)
class Moves:
    """Where the positions of one branch go."""

    runs: list[tuple[int, int]] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)

    def to(self, position: int) -> int:
        """Tells where a position goes: behind as many as there are before it."""
        at = bisect_right([first for first, _ in self.runs], position) - 1
        if at < 0:
            return 0
        first, last = self.runs[at]
        return self.starts[at] + min(position, last + 1) - first

    def has(self, position: int) -> bool:
        """Tells whether there is a message at a position."""
        at = bisect_right([first for first, _ in self.runs], position) - 1
        return at >= 0 and position <= self.runs[at][1]

    @property
    def closes(self) -> bool:
        """Whether anything moves."""
        return any(run[0] != start for run, start in zip(self.runs, self.starts, strict=True))


def close_gaps(using: str, session: Session, agent: UUID) -> str:
    """Closes up the positions of all branches of an agent, in the caller's transaction.

    A copy of a message has the same position on each branch, which redaction relies on. So all
    branches are closed up together, or none.
    """
    if is_arriving(session.origin):
        return "an import of the session is not complete"
    messages = SessionMessage.objects.using(using).filter(agent=agent).order_by()
    branches = sorted(set(messages.values_list("branch", flat=True).distinct()))
    moves = {branch: _moves(using, agent, branch) for branch in branches}
    if not any(moved.closes for moved in moves.values()):
        return ""
    if why := _parted(using, agent, moves):
        return why
    changes = _references(using, agent, moves)
    if changes is None:
        return "a window or snapshot of the agent cannot be read"
    for model, key, columns in changes:
        model._base_manager.using(using).filter(pk=key).update(**columns)
    free = max(branches) + 1
    closed = 0
    for branch, moved in moves.items():
        if moved.closes:
            closed += 1
            _move(using, agent, branch, moved, free)
    audit.record(
        AuditEvent.Action.REPAIRED,
        session=session.pk,
        target=agent,
        actor=ACTOR,
        details={"branches": closed},
        using=using,
    )
    # Whoever runs the agent knows messages by their positions, and reads them again.
    move_epoch(using, session, redacted=False)
    return ""


def _moves(using: str, agent: UUID, branch: int) -> Moves:
    moved = Moves()
    for first, last in _runs(_positions(using, agent, branch)):
        moved.starts.append(moved.to(first) if moved.runs else 0)
        moved.runs.append((first, last))
    return moved


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


def _parted(using: str, agent: UUID, moves: Mapping[int, Moves]) -> str:
    """Tells whether copies that have one position would have several."""
    if len(moves) == 1:
        return ""
    rows = SessionMessage.objects.using(using).filter(agent=agent).order_by()
    if rows.count() > _MOST_COPIES:
        return "the agent has too many messages on several branches"
    there: dict[tuple[UUID, int], set[int]] = defaultdict(set)
    for key, source, branch, position in rows.values_list("pk", "source", "branch", "message_id"):
        there[source or key, position].add(moves[branch].to(position))
    if any(len(places) > 1 for places in there.values()):
        return "the branches of the agent do not miss the same positions"
    return ""


def _references(using: str, agent: UUID, moves: Mapping[int, Moves]) -> list[_Change] | None:
    """Lets what refers to positions follow."""
    changes: list[_Change] = []
    window = SessionAgent.objects.using(using).values_list("window", flat=True).get(pk=agent)
    moved = moves.get(MAIN_BRANCH, Moves())
    if isinstance(window, CorruptPayload):
        return None
    if isinstance(window, dict) and moved.closes:
        kept = [moved.to(position) for position in window["kept"] if moved.has(position)]
        columns: dict[str, Any] = {"window": {"kept": kept, "tail": moved.to(window["tail"])}}
        changes.append((SessionAgent, agent, columns))
    snapshots = Snapshot.objects.using(using).filter(agent=agent)
    for part in large(snapshots, ("branch", "messages", "length"), ("messages",)):
        for found in part:
            moved = moves.get(found["branch"], Moves())
            if not isinstance(found["messages"], list):
                return None
            if moved.closes:
                columns = {
                    "messages": _closed(found["messages"], moved),
                    "length": moved.to(found["length"]),
                    "revision": F("revision") + 1,
                }
                changes.append((Snapshot, found["pk"], columns))
    for branch in Branch.objects.using(using).filter(agent=agent, number__in=moves):
        if (start := moves[branch.number].to(branch.start)) != branch.start:
            changes.append((Branch, branch.pk, {"start": start}))
    return changes


def _closed(messages: list[Any], moved: Moves) -> list[Any]:
    closed: list[Any] = []
    for item in messages:
        if isinstance(item, list):
            first, stop = (moved.to(position) for position in item)
            if first < stop:
                closed.append([first, stop])
        elif "position" not in item:
            closed.append(item)
        elif moved.has(item["position"]):
            closed.append({**item, "position": moved.to(item["position"])})
        else:
            closed.append({"message": item["message"]})
    return closed


def _move(using: str, agent: UUID, branch: int, moved: Moves, free: int) -> None:
    """Moves messages by way of a branch that is free: no position is ever taken twice."""
    rows = SessionMessage.objects.using(using).filter(agent=agent).order_by()
    for (first, last), start in zip(moved.runs, moved.starts, strict=True):
        if first != start:
            run = rows.filter(branch=branch, message_id__gte=first, message_id__lte=last)
            run.update(branch=free, message_id=F("message_id") - (first - start))
    rows.filter(branch=free).update(branch=branch)
