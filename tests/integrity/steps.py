"""What tests do to conversations that no code of the package does."""

from __future__ import annotations

from typing import Any

from django_agent_sessions.models import Session, SessionMessage
from django_agent_sessions.models.functions import message_count
from django_agent_sessions.values.records import AgentRecord
from tests.texts import text_of


def rows(agent: AgentRecord, *positions: int) -> Any:
    found = SessionMessage.objects.filter(agent=agent.id, branch=agent.branch)
    return found.filter(message_id__in=positions) if positions else found


def take(agent: AgentRecord, *positions: int) -> None:
    """Takes messages away as somebody who types SQL does."""
    rows(agent, *positions)._raw_delete("default")
    session = SessionMessage.objects.filter(session=agent.session).order_by()
    left = session.aggregate(left=message_count())["left"]
    Session.objects.filter(pk=agent.session).update(message_count=left)


def closed(agent: AgentRecord) -> list[tuple[int, str]]:
    return [(row.message_id, text_of(row)) for row in rows(agent).order_by("message_id")]
