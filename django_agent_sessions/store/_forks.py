"""Fork a session: create a new session with a copy of another's history."""

from __future__ import annotations

import copy as copies
from datetime import datetime
from typing import Any
from uuid import UUID

from django.utils import timezone

from django_agent_sessions.exceptions import SessionNotFoundError
from django_agent_sessions.models import (
    MAIN_BRANCH,
    Session,
    SessionAgent,
    SessionMessage,
    SessionMultiAgent,
    Snapshot,
)
from django_agent_sessions.models.querysets import MessageQuerySet
from django_agent_sessions.values.ids import new_id
from django_agent_sessions.values.records import AgentState
from django_agent_sessions.values.state_columns import state_columns, state_of

from ._agent_rows import agent_without_state
from ._agent_states import LATEST_SNAPSHOT_ID, state_in_snapshot, without_run_state
from ._counters import set_error_count
from ._message_copies import copy_messages
from ._queries import session_rows
from ._row_errors import refuse_unreadable
from ._session_columns import prepare_title
from ._snapshot_documents import without_message_references


def _ancestors(session: Session) -> list[str]:
    """Return the primary keys of a session's ancestors, oldest first."""
    origin: Any = session.origin
    return list(origin["fork"]["line"]) if session.forked_from else []


def _until(
    rows: MessageQuerySet, agent: SessionAgent, last: SessionMessage | None
) -> MessageQuerySet:
    """Filter the messages up to and including a message."""
    if last is None:
        return rows
    if last.agent_id == agent.pk:
        return rows.filter(message_id__lte=last.message_id)
    # Cut at the first later message, so that positions stay dense.
    first_later = (
        rows.filter(created_at__gt=last.created_at).values_list("message_id", flat=True).first()
    )
    return rows if first_later is None else rows.filter(message_id__lt=first_later)


def copy_session(
    using: str,
    source: Session,
    key: UUID,
    name: str,
    title: str | None,
    at: UUID | None,
    external_id: str | None,
    what: str,
) -> Session:
    messages = SessionMessage.objects.using(using).filter(session=source)
    last = None if at is None else messages.filter(pk=at).first()
    if at is not None and last is None:
        raise SessionNotFoundError(f"{what}: the session has no message {at}")
    now = timezone.now()
    target = Session(  # type: ignore[misc] # the external id is the one id that may be missing
        id=key,
        external_id=external_id,
        namespace=source.namespace,
        scope=source.scope,
        session_id=name,
        session_type=source.session_type,
        owner_id=source.owner_id,
        title=source.title if title is None else prepare_title(title),
        title_derived=source.title_derived and title is None,
        metadata=copies.deepcopy(source.metadata),
        origin={
            "fork": {
                "session": str(source.pk),
                "message": str(at) if at else None,
                "line": [*_ancestors(source), str(source.pk)],
            }
        },
        forked_from=source.forked_from or source.pk,
        created_at=now,
        updated_at=now,
        last_activity_at=now,
    )
    target.save(using=using, force_insert=True)
    copied = 0
    for agent in SessionAgent.objects.using(using).filter(session=source).order_by("id"):
        copied += _fork_agent(using, agent, target, last, now)
    counters = {"message_count": copied}
    if source.error_count:
        errors = SessionMessage.objects.using(using).filter(session=key, has_error=True).count()
        counters |= set_error_count(errors)
    session_rows(using).filter(pk=key).update(**counters)
    for name, count in counters.items():
        setattr(target, name, count)
    if last is None:
        for row in SessionMultiAgent.objects.using(using).filter(session=source):
            row.pk, row.session, row.created_at, row.updated_at = new_id(), target, now, now
            row.save(using=using, force_insert=True)
    return target


def _fork_agent(
    using: str, agent: SessionAgent, session: Session, last: SessionMessage | None, now: datetime
) -> int:
    branch = MAIN_BRANCH
    if last is not None and last.agent_id == agent.pk:
        branch = last.branch
    rows = SessionMessage.objects.using(using).conversation(agent.pk, branch)
    messages = _until(rows, agent, last)
    length = messages.count()
    complete = length == rows.count() and branch == MAIN_BRANCH
    state = _state_at(using, agent, branch, length, complete=complete)
    columns = state_columns(state) | {"state": without_run_state(state.state, agent.dialect)}
    target = SessionAgent(
        session=session,
        agent_id=agent.agent_id,
        dialect=agent.dialect,
        **columns,
        created_at=now,
        updated_at=now,
    )
    target.save(using=using, force_insert=True)
    return copy_messages(using, messages, agent_without_state(target))


def _state_at(
    using: str, agent: SessionAgent, branch: int, length: int, *, complete: bool
) -> AgentState:
    """Return the agent's state at a length of the conversation, as far as it is known."""
    present = state_of(agent)
    if complete:
        return present
    snapshots = Snapshot.objects.using(using).filter(agent=agent.pk, branch=branch)
    snapshot = (
        snapshots.filter(length=length)
        .exclude(snapshot_id=LATEST_SNAPSHOT_ID)
        .order_by("-id")
        .first()
    )
    if snapshot is None:
        return without_message_references(present)
    refuse_unreadable(f"a snapshot of agent {agent.agent_id!r}", snapshot)
    return state_in_snapshot(snapshot, length)
