"""The ends of conversations: rows of several agents in one statement, without their payloads."""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping
from uuid import UUID

from django.db.models import Q, QuerySet

from django_agent_sessions import bridge
from django_agent_sessions.models import MAIN_BRANCH, Session, SessionMessage

TOGETHER = 20
"""How many agents' conversations are read beside each other."""

End = list[tuple[int, int, UUID]]
"""Positions, revisions and keys, in order."""


def messages(session: Session) -> QuerySet[SessionMessage]:
    """Gives a session's messages, in no order."""
    rows = SessionMessage.objects.using(bridge.database())
    return rows.filter(session=session.pk, branch=MAIN_BRANCH).order_by()


def ends(ranges: Mapping[UUID, tuple[int, int]]) -> dict[UUID, End]:
    """Reads what stands at positions of agents, in one statement."""
    found: dict[UUID, End] = {agent: [] for agent in ranges}
    if not ranges:
        return found
    # Each is a short piece of the index of positions, however long the conversation is.
    # The session is not named beside them, or SQLite would walk through all that it has.
    wanted = [
        Q(agent=agent, branch=MAIN_BRANCH, message_id__range=both) for agent, both in ranges.items()
    ]
    rows = SessionMessage.objects.using(bridge.database())
    rows = rows.filter(functools.reduce(operator.or_, wanted)).order_by("message_id")
    columns = rows.values_list("agent_id", "message_id", "revision", "pk")
    for agent, position, revision, key in columns:
        found[agent].append((position, revision, key))
    return found


def end(session: Session, agent: UUID, first: int, count: int) -> End:
    """Reads the next messages of one agent, also where positions are left out."""
    rows = messages(session).filter(agent=agent, message_id__gte=first).order_by("message_id")
    return list(rows.values_list("message_id", "revision", "pk")[:count])
