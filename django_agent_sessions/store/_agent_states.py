"""The state of an agent: in its row, in snapshots, and after a change of its main branch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from django.db.models import F, QuerySet
from django.utils import timezone

from django_agent_sessions.content import dialects
from django_agent_sessions.content.message_references import held_by, holding
from django_agent_sessions.models import (
    MAIN_BRANCH,
    Session,
    SessionAgent,
    Snapshot,
)
from django_agent_sessions.models.content_field import sealed_columns, update_one
from django_agent_sessions.values.ids import new_id
from django_agent_sessions.values.records import AgentRecord, AgentState, SnapshotRecord
from django_agent_sessions.values.state_columns import state_columns, state_of

from ._queries import conversation_length, key_at, snapshot_rows
from ._row_errors import agent_deleted, refuse_unreadable
from ._snapshot_documents import agent_document, state_in_document, without_message_references
from .locking import Removal, lock_session, with_lock

R = TypeVar("R")

BRANCH_NAMES = "branch_names"
"""Key of the reserved branch names in an agent's internal state.

``{"deleted": [name, …], "cleared": [name, …]}``: deleted branches, and branches whose callers
continue on the main branch, because the conversation was cleared or the branch became the main one.
"""

RUN_STATE = "run_state"
"""Key of a run that waits for a person in an agent's state.

It is taken once. It is therefore not copied, and no snapshot brings it back.
"""

LATEST_SNAPSHOT_ID = ""
"""Id of the snapshot that each save replaces."""


def state_in_snapshot(snapshot: Snapshot, length: int) -> AgentState:
    """Return the state of an agent that continues from a snapshot, at the end of its messages."""
    return holding(state_in_document(snapshot.document), snapshot.messages, length)


def _with_names(internal: Any, row: SessionAgent, became_main: str | None) -> Any:
    """Keep the reserved branch names, which no snapshot changes, in the internal state.

    A caller on a branch that became the main one follows it there.
    """
    stored = row.internal_state.get(BRANCH_NAMES) if isinstance(row.internal_state, dict) else None
    names = dict(stored) if isinstance(stored, dict) else {}
    if became_main is not None and dialects.get(row.dialect).has_named_branches:
        cleared = [*names.get("cleared", ()), became_main]
        names["cleared"] = list(dict.fromkeys(cleared))
    return {**internal, BRANCH_NAMES: names} if names else internal


def former_name_of_main(using: str, agent: AgentRecord) -> str | None:
    """Return the name that the main branch had while it was a side branch; None if it had none."""
    rows = SessionAgent.objects.using(using).filter(pk=agent.id)
    return rows.values_list("main_name", flat=True).first()


def without_run_state(state: Any, dialect: str) -> Any:
    """Return an agent's state without the run that waits."""
    if not isinstance(state, dict) or not dialects.get(dialect).has_run_states:
        return state
    return {name: value for name, value in state.items() if name != RUN_STATE}


def _with_present_run(state: Any, row: SessionAgent) -> Any:
    """Return the state of a snapshot with the run that waits now, if one does."""
    rest = without_run_state(state, row.dialect)
    present = row.state
    if rest is state or not isinstance(present, dict) or RUN_STATE not in present:
        return rest
    return {**rest, RUN_STATE: present[RUN_STATE]}


def insert_snapshot(using: str, agent: AgentRecord) -> Snapshot:
    """Insert a snapshot of the main branch and the agent's present state."""
    now = timezone.now()
    latest = snapshot_rows(using, agent).filter(snapshot_id=LATEST_SNAPSHOT_ID).first()
    refuse_unreadable(f"a snapshot of agent {agent.agent_id!r}", latest)
    if latest is None:
        row = SessionAgent.objects.using(using).get(pk=agent.id)
        refuse_unreadable(f"agent {agent.agent_id!r}", row)
        length = conversation_length(using, agent)
        state = state_of(row)
        messages = held_by(state, length)
        document: Any = agent_document(state, now)
    else:
        length, messages, document = latest.length, latest.messages, latest.document
    branch = MAIN_BRANCH if latest is None else latest.branch
    tail = key_at(using, agent.on_branch(branch), length - 1)
    key = new_id()
    snapshot = Snapshot(
        id=key,
        session_id=agent.session,
        agent_id=agent.id,
        snapshot_id=str(key),
        branch=branch,
        messages=messages,
        length=length,
        tail=tail,
        document=document,
        created_at=now,
        updated_at=now,
    )
    snapshot.save(using=using, force_insert=True)
    return snapshot


def settle_agent(
    using: str,
    agent: AgentRecord,
    length: int,
    snapshot: Snapshot | None = None,
    *,
    became_main: str | None = None,
) -> None:
    """Update the agent's state after a change of its main branch.

    ``became_main`` is the name of a side branch that became the main one.
    """
    now = timezone.now()
    row = SessionAgent.objects.using(using).get(pk=agent.id)
    refuse_unreadable(f"agent {agent.agent_id!r}", row)
    if snapshot is None:
        snapshots = snapshot_rows(using, agent).filter(branch=MAIN_BRANCH, length=length)
        snapshot = snapshots.exclude(snapshot_id=LATEST_SNAPSHOT_ID).order_by("-id").first()
    refuse_unreadable(f"a snapshot of agent {agent.agent_id!r}", snapshot)
    latest = snapshot_rows(using, agent).filter(snapshot_id=LATEST_SNAPSHOT_ID)
    if snapshot is None:
        previous = latest.first()
        refuse_unreadable(f"a snapshot of agent {agent.agent_id!r}", previous)
        state = without_message_references(
            state_of(row) if previous is None else state_in_document(previous.document)
        )
        messages: Any = [[0, length]] if length else []
        document: Any = agent_document(state, now)
        if previous is not None:
            document["data"] = {**previous.document["data"], **document["data"]}
    else:
        state, messages, document = (
            state_in_document(snapshot.document),
            snapshot.messages,
            snapshot.document,
        )
    columns = state_columns(holding(state, messages, length)) | {
        "state": _with_present_run(state.state, row),
        "internal_state": _with_names(state.internal_state, row, became_main),
    }
    SessionAgent.objects.using(using).filter(pk=agent.id).update(
        **sealed_columns(SessionAgent, agent.id, columns, agent.session),
        main_name=row.main_name if became_main is None else became_main,
        updated_at=now,
    )
    update_snapshot(
        latest,
        {"messages": messages, "document": document},
        branch=MAIN_BRANCH,
        length=length,
        tail=key_at(using, agent.on_branch(MAIN_BRANCH), length - 1),
        updated_at=now,
    )


def update_snapshot(rows: QuerySet[Snapshot], content: Mapping[str, Any], **columns: Any) -> int:
    """Write the content of a snapshot, if there is one, and increase its revision."""
    return update_one(rows, content, **columns, revision=F("revision") + 1)


def with_agent_lock(
    using: str,
    agent: AgentRecord,
    work: Callable[[Session], R],
    what: str,
    *,
    epoch: int | None = None,
    removes: Removal = False,
) -> R:
    def lock() -> Session:
        return lock_agent(using, agent, what)

    return with_lock(using, lock, work, what=what, epoch=epoch, removes=removes)


def lock_agent(using: str, agent: AgentRecord, what: str) -> Session:
    session = lock_session(using, agent.session)
    if session is None or not agent_exists(using, agent):
        raise agent_deleted(what, agent.session)
    return session


def agent_exists(using: str, agent: AgentRecord) -> bool:
    return SessionAgent.objects.using(using).filter(pk=agent.id).exists()


def snapshot_record(row: Snapshot) -> SnapshotRecord:
    assert row.agent_id is not None  # noqa: S101 - only an agent's snapshots are queried
    return SnapshotRecord(
        id=row.pk,
        agent=row.agent_id,
        snapshot_id=row.snapshot_id,
        branch=row.branch,
        length=row.length,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )
