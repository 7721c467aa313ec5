"""Read the last rows of several agents in one statement, without their payloads."""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping
from uuid import UUID

from django.db.models import Q, QuerySet

from django_agent_sessions.db import bridge
from django_agent_sessions.models import MAIN_BRANCH, Session, SessionMessage

MAX_AGENTS_PER_STATEMENT = 20
"""Maximum number of agents per statement."""

RowVersions = list[tuple[int, int, UUID]]
"""Positions, revisions and primary keys, in order."""


def messages(session: Session) -> QuerySet[SessionMessage]:
    """Return a queryset of a session's main messages, unordered."""
    rows = SessionMessage.objects.using(bridge.database())
    return rows.filter(session=session.pk, branch=MAIN_BRANCH).order_by()


def rows_at_positions(ranges: Mapping[UUID, tuple[int, int]]) -> dict[UUID, RowVersions]:
    """Read rows at ranges of positions of several agents, in one statement."""
    result: dict[UUID, RowVersions] = {agent: [] for agent in ranges}
    if not ranges:
        return result
    # Each is a short range of the index of positions. No condition on the session, or SQLite
    # would scan all its messages.
    conditions = [
        Q(agent=agent, branch=MAIN_BRANCH, message_id__range=positions)
        for agent, positions in ranges.items()
    ]
    rows = SessionMessage.objects.using(bridge.database())
    rows = rows.filter(functools.reduce(operator.or_, conditions)).order_by("message_id")
    columns = rows.values_list("agent_id", "message_id", "revision", "pk")
    for agent, position, revision, key in columns:
        result[agent].append((position, revision, key))
    return result


def rows_from_position(session: Session, agent: UUID, first: int, count: int) -> RowVersions:
    """Read the next messages of one agent, also across gaps in the positions."""
    rows = messages(session).filter(agent=agent, message_id__gte=first).order_by("message_id")
    return list(rows.values_list("message_id", "revision", "pk")[:count])
