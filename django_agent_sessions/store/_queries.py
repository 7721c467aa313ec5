"""Rows that belong to a session or an agent, for all parts of the store."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from django.db import connections
from django.db.models import Max, QuerySet

from django_agent_sessions.models import Branch, Session, SessionAgent, SessionMessage, Snapshot
from django_agent_sessions.models.querysets import MessageQuerySet, SessionQuerySet
from django_agent_sessions.values.records import AgentRecord


def session_rows(using: str) -> SessionQuerySet:
    return Session.objects.using(using)


def agent_rows(using: str) -> QuerySet[SessionAgent]:
    return SessionAgent.objects.using(using)


def branch_rows(using: str, agent: AgentRecord) -> QuerySet[Branch]:
    AgentRecord.require(agent)
    return Branch.objects.using(using).filter(agent=agent.id)


def snapshot_rows(using: str, agent: AgentRecord) -> QuerySet[Snapshot]:
    return Snapshot.objects.using(using).filter(agent=agent.id)


def conversation(using: str, agent: AgentRecord) -> MessageQuerySet:
    """Return the messages of the agent's branch, in order."""
    AgentRecord.require(agent)
    return SessionMessage.objects.using(using).conversation(agent.id, agent.branch)


def conversation_length(using: str, agent: AgentRecord) -> int:
    last = conversation(using, agent).order_by().aggregate(last=Max("message_id"))["last"]
    return 0 if last is None else last + 1


def next_position(using: str, agent: AgentRecord) -> int:
    last = conversation(using, agent).order_by("-message_id")
    position = last.values_list("message_id", flat=True).first()
    return 0 if position is None else position + 1


def key_at(using: str, agent: AgentRecord, position: int) -> UUID | None:
    rows = conversation(using, agent).filter(message_id=position)
    return rows.values_list("pk", flat=True).first() if position >= 0 else None


def positions_of(
    using: str, keys: Collection[UUID], *, agent: AgentRecord | None = None
) -> dict[UUID, int]:
    rows = SessionMessage.objects.using(using).filter(pk__in=list(keys))
    if agent is not None:
        rows = rows.filter(agent=agent.id)
    return dict(rows.values_list("pk", "message_id"))


def lock_session_row(using: str, session: UUID) -> None:
    """Lock the session's row in a caller's transaction before any row that belongs to it.

    A redaction locks the session's row first. A transaction that locks rows in another order would
    deadlock with it.
    """
    connection = connections[using]
    if connection.in_atomic_block and connection.features.has_select_for_update:
        # The weaker lock, where available, does not block appends.
        weaker = connection.features.has_select_for_no_key_update
        rows = session_rows(using).filter(pk=session)
        rows.select_for_update(no_key=weaker).values_list("pk").first()
