"""Read how far sessions are, and the last rows of agents, in one small statement for many."""

from __future__ import annotations

import functools
import operator
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db.models import OuterRef, Q, QuerySet, Subquery

from django_agent_sessions.db import bridge
from django_agent_sessions.models import MAIN_BRANCH, Session, SessionAgent, SessionMessage
from django_agent_sessions.values.message_version import MessageVersion

from .cursor import MessagePosition

MAX_AGENTS_PER_STATEMENT = 20
"""Maximum number of agents whose rows are read in one statement."""

_MAX_SESSIONS = 500


@dataclass(frozen=True, slots=True)
class SessionState:
    """How far a session is. Equal states mean that nothing changed in between."""

    change: int
    redaction_change: int
    header_change: int
    feedback_change: int
    owner: Any
    ends: dict[UUID, MessageVersion] = field(default_factory=dict)
    """The last message of each agent that has any."""

    agents: set[UUID] = field(default_factory=set)


def read_states(using: str, sessions: Collection[UUID]) -> dict[UUID, SessionState]:
    """Read the states of sessions; deleted ones are missing in the result."""
    keys = list(sessions)
    result: dict[UUID, SessionState] = {}
    for first in range(0, len(keys), _MAX_SESSIONS):
        for row in _state_rows(using, keys[first : first + _MAX_SESSIONS]):
            key, agent, message, position, revision, *columns = row
            state = result.setdefault(key, SessionState(*columns))
            if agent is not None:
                state.agents.add(agent)
            if message is not None:
                state.ends[agent] = MessageVersion(position, revision, message)
    return result


def _state_rows(using: str, keys: Sequence[UUID]) -> QuerySet[Session, Any]:
    # Each subquery reads one entry of the index of positions.
    last = _main_messages(using).filter(agent=OuterRef("agents")).order_by("-message_id")
    return (
        Session.objects.using(using)
        .filter(pk__in=keys)
        .order_by()
        .values_list(
            "pk",
            "agents__pk",
            Subquery(last.values("pk")[:1]),
            Subquery(last.values("message_id")[:1]),
            Subquery(last.values("revision")[:1]),
            "change",
            "redaction_change",
            "header_change",
            "feedback_change",
            "owner_id",
        )
    )


def positions_unchanged_since(change: int, agents: Collection[UUID]) -> dict[UUID, int]:
    """Return each agent's last position that holds the same message as at a change number.

    Positions are given in order, so that all before it hold the same messages too.
    """
    using = bridge.database()
    rows = _main_messages(using).filter(agent=OuterRef("pk"), change__lte=change)
    last = Subquery(rows.order_by("-message_id").values("message_id")[:1])
    found = SessionAgent.objects.using(using).filter(pk__in=list(agents)).order_by()
    return {
        agent: position for agent, position in found.values_list("pk", last) if position is not None
    }


def redacted_messages(session: UUID) -> QuerySet[SessionMessage]:
    """Return a queryset of a session's redacted messages, in order of changes and keys."""
    rows = _main_messages(bridge.database()).filter(session=session)
    return rows.order_by("redaction_change", "pk")


MessageRange = tuple[UUID, int, int]
"""An agent, and the first and last position of some of its messages."""


def messages_at(ranges: Collection[MessageRange]) -> dict[MessageRange, list[MessageVersion]]:
    """Read the messages at ranges of positions, of many agents in each statement."""
    distinct = list(dict.fromkeys(ranges))
    found: dict[UUID, dict[int, MessageVersion]] = {agent: {} for agent, _, _ in distinct}
    for first in range(0, len(distinct), MAX_AGENTS_PER_STATEMENT):
        # Each is a short range of the index of positions. No condition on the session, or SQLite
        # would scan all its messages.
        conditions = [
            Q(agent=agent, branch=MAIN_BRANCH, message_id__range=(start, end))
            for agent, start, end in distinct[first : first + MAX_AGENTS_PER_STATEMENT]
        ]
        rows = SessionMessage.objects.using(bridge.database()).order_by()
        rows = rows.filter(functools.reduce(operator.or_, conditions))
        columns = rows.values_list("agent_id", "message_id", "revision", "pk")
        for agent, position, revision, key in columns:
            found[agent][position] = MessageVersion(position, revision, key)
    return {
        (agent, start, end): sorted(
            row for position, row in found[agent].items() if start <= position <= end
        )
        for agent, start, end in distinct
    }


def messages_after(agent: UUID, position: int, count: int) -> list[MessageVersion]:
    """Read the next messages of one agent, also across gaps in the positions."""
    rows = _main_messages(bridge.database()).filter(agent=agent, message_id__gt=position)
    columns = rows.order_by("message_id").values_list("message_id", "revision", "pk")
    return [MessageVersion(*values) for values in columns[:count]]


def last_message_upto(agent: UUID, upto: int) -> MessagePosition | None:
    """Return an agent's last message at a position or before it; None if there is none."""
    rows = _main_messages(bridge.database()).filter(agent=agent, message_id__lte=upto)
    last = rows.order_by("-message_id").values_list("message_id", "revision").first()
    return None if last is None else MessagePosition(*last)


def _main_messages(using: str) -> QuerySet[SessionMessage]:
    return SessionMessage.objects.using(using).filter(branch=MAIN_BRANCH).order_by()
