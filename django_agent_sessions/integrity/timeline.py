"""Checks of what refers to messages: windows, branches, snapshots, forks and turns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django_agent_sessions.content.message_references import end_of_references, end_of_window
from django_agent_sessions.models import (
    MAIN_BRANCH,
    Branch,
    SessionMessage,
    SessionMultiAgent,
    Snapshot,
    TurnUsage,
)
from django_agent_sessions.models.fields import CorruptPayload

from .batch import Batch, UsageSum
from .findings import Kind
from .row_batches import Row, key_batches, row_batches

_MAIN_NAME = "main"
_IMPORT_KEY = "import"
_CONTENTS = ("messages", "document")


def check_timeline(batch: Batch) -> None:
    """Check everything in a batch that refers to positions or is recorded beside messages."""
    ends = {(span.agent, span.branch): span.last + 1 for span in batch.spans}
    _check_windows(batch, ends)
    _check_branches(batch, ends)
    _check_snapshots(batch, ends)
    _check_orchestrators(batch)
    _check_forks(batch)
    _check_turns(batch)


_Ends = Mapping[tuple[UUID, int], int]


def _check_windows(batch: Batch, ends: _Ends) -> None:
    for key, agent in batch.agents.items():
        where = {"session": agent.session, "agent": key, "row": key}
        end = end_of_window(agent.window)
        if end is None:
            batch.add(Kind.WINDOW, **where)
        elif end > ends.get((key, MAIN_BRANCH), 0):
            batch.add(Kind.WINDOW_PAST_END, **where)


def _check_branches(batch: Batch, ends: _Ends) -> None:
    rows = Branch.objects.using(batch.using).filter(session__in=batch.sessions)
    known: set[tuple[UUID, int]] = set()
    for part in key_batches(rows, "session_id", "agent_id", "number", "name", "start"):
        for key, session, agent, number, name, start in part:
            known.add((agent, number))
            where = {"session": session, "agent": agent, "branch": number, "row": key}
            if not _agent_belongs_to(batch, agent, session):
                batch.add(Kind.MISPLACED, **where, detail="branch")
                continue
            if number == MAIN_BRANCH or name == _MAIN_NAME:
                batch.add(Kind.BRANCH, **where)
            if start > ends.get((agent, number), 0):
                batch.add(Kind.BRANCH_BASE, **where)
    for span in batch.spans:
        if span.branch != MAIN_BRANCH and (span.agent, span.branch) not in known:
            session = batch.agents[span.agent].session
            # An import creates the rows of branches after all messages.
            if not is_import_incomplete(batch.sessions[session].origin):
                batch.add(
                    Kind.BRANCH_UNNAMED, session=session, agent=span.agent, branch=span.branch
                )


def is_import_incomplete(origin: Any) -> bool:
    """Return whether the origin of a session says that its import is incomplete."""
    mark = origin.get(_IMPORT_KEY) if isinstance(origin, dict) else None
    return isinstance(mark, dict) and mark.get("complete") is not True


def _agent_belongs_to(batch: Batch, agent: UUID, session: UUID) -> bool:
    known = batch.agents.get(agent)
    return known is not None and known.session == session


# --- snapshots ------------------------------------------------------------------------------------


def _check_snapshots(batch: Batch, ends: _Ends) -> None:
    rows = Snapshot.objects.using(batch.using).filter(session__in=batch.sessions)
    columns = ("session_id", "agent_id", "multi_agent_id", "branch", "length", "tail", *_CONTENTS)
    for part in row_batches(rows, columns, _CONTENTS):
        tails = {row["tail"] for row in part if row["tail"] is not None}
        tail_rows = SessionMessage.objects.using(batch.using).filter(pk__in=tails)
        tail_positions = {
            key: tuple(position)
            for key, *position in tail_rows.values_list("pk", "agent_id", "branch", "message_id")
        }
        for row in part:
            _check_snapshot(batch, row, tail_positions, ends)


def _check_snapshot(
    batch: Batch, row: Row, tail_positions: Mapping[UUID, tuple[Any, ...]], ends: _Ends
) -> None:
    agent, branch, length = row["agent_id"], row["branch"], row["length"]
    where = {"session": row["session_id"], "agent": agent, "branch": branch, "row": row["pk"]}
    corrupt = [name for name in _CONTENTS if isinstance(row[name], CorruptPayload)]
    for name in corrupt:
        batch.add_unreadable(Kind.CORRUPT_STATE, row[name].text, **where, detail=name)
    if (agent is None) == (row["multi_agent_id"] is None):
        batch.add(Kind.SNAPSHOT, **where, detail="owner")
    if agent is None:
        return
    if not _agent_belongs_to(batch, agent, row["session_id"]):
        batch.add(Kind.MISPLACED, **where, detail="snapshot")
        return
    stop = 0 if "messages" in corrupt else end_of_references(row["messages"])
    if stop is None:
        batch.add(Kind.SNAPSHOT, **where, detail="messages")
    elif stop > length:
        batch.add(Kind.SNAPSHOT, **where, detail="length")
    else:
        tail_exists = row["tail"] is None or tail_positions.get(row["tail"]) == (
            agent,
            branch,
            length - 1,
        )
        if not tail_exists or stop > ends.get((agent, branch), 0):
            batch.add(Kind.SNAPSHOT_CUT, **where)


# --- the rest -------------------------------------------------------------------------------------


def _check_orchestrators(batch: Batch) -> None:
    rows = SessionMultiAgent.objects.using(batch.using).filter(session__in=batch.sessions)
    for part in row_batches(rows, ("session_id", "state"), ("state",)):
        for row in part:
            if isinstance(row["state"], CorruptPayload):
                where = {"session": row["session_id"], "row": row["pk"], "detail": "state"}
                batch.add_unreadable(Kind.CORRUPT_STATE, row["state"].text, **where)


def _check_forks(batch: Batch) -> None:
    for key, session in batch.sessions.items():
        if session.forked_from is None:
            continue
        origin: Any = session.origin
        fork = origin.get("fork") if isinstance(origin, dict) else None
        line = fork.get("line") if isinstance(fork, dict) else None
        if not isinstance(line, list) or line[:1] != [str(session.forked_from)]:
            batch.add(Kind.FORK, session=key)


def _check_turns(batch: Batch) -> None:
    rows = TurnUsage.objects.using(batch.using).filter(session__in=batch.sessions)
    columns = ("session_id", "agent_id", "branch", "input_tokens", "output_tokens")
    for part in key_batches(rows, *columns):
        for key, session, agent, branch, *figures in part:
            if not _agent_belongs_to(batch, agent, session):
                batch.add(
                    Kind.MISPLACED,
                    session=session,
                    agent=agent,
                    branch=branch,
                    row=key,
                    detail="turn",
                )
            known = batch.spent_by_turns.get(session, UsageSum())
            batch.spent_by_turns[session] = known.plus(0, *figures, 0, 0)
