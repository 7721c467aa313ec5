"""Read how far sessions are, in one small statement for many sessions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import OuterRef, QuerySet, Subquery

from django_agent_sessions.models import MAIN_BRANCH, Session, SessionMessage

_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class SessionHeader:
    """A session's title, dates and flags."""

    title: str
    archived_at: datetime | None
    expires_at: datetime | None
    legal_hold: bool


@dataclass(frozen=True, slots=True)
class ConversationEnds:
    """An agent's last message, and its first.

    The first one identifies the main branch: each branch has its own first message, and messages
    leave a branch only together with all later ones.
    """

    id: UUID
    position: int
    revision: int
    first: UUID


@dataclass(frozen=True, slots=True)
class SessionState:
    """How far a session is. Equal states mean that nothing changed in between."""

    epoch: int
    owner: Any
    head: SessionHeader
    tails: dict[UUID, ConversationEnds | None] = field(default_factory=dict)
    """The last message of each agent, by the agent's primary key."""


def read_states(using: str, sessions: Collection[UUID]) -> dict[UUID, SessionState]:
    """Read the states of sessions; deleted ones are missing in the result."""
    keys = list(sessions)
    result: dict[UUID, SessionState] = {}
    for first in range(0, len(keys), _AT_ONCE):
        for row in _rows(using, keys[first : first + _AT_ONCE]):
            key, epoch, owner, title, archived, expires, held, agent, *ends = row
            if key not in result:
                result[key] = SessionState(
                    epoch, owner, SessionHeader(title, archived, expires, held)
                )
            if agent is not None:
                result[key].tails[agent] = None if ends[0] is None else ConversationEnds(*ends)
    return result


def _rows(using: str, keys: Sequence[UUID]) -> QuerySet[Session, Any]:
    # Each subquery reads one entry of the index of positions.
    main = SessionMessage.objects.using(using).filter(agent=OuterRef("agents"), branch=MAIN_BRANCH)
    last, first = main.order_by("-message_id"), main.order_by("message_id")
    return (
        Session.objects.using(using)
        .filter(pk__in=keys)
        .order_by()
        .values_list(
            "pk",
            "redaction_epoch",
            "owner_id",
            "title",
            "archived_at",
            "expires_at",
            "legal_hold",
            "agents__pk",
            Subquery(last.values("pk")[:1]),
            Subquery(last.values("message_id")[:1]),
            Subquery(last.values("revision")[:1]),
            Subquery(first.values("pk")[:1]),
        )
    )
