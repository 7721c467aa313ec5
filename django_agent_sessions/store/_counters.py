"""The counters of a session: messages, tokens, last activity."""

from __future__ import annotations

import logging
from typing import Any
from uuid import UUID

from django.db import Error, connections
from django.db.models import F, QuerySet
from django.db.models.functions import Coalesce
from django.utils import timezone

from django_agent_sessions.exceptions import AgentSessionsError
from django_agent_sessions.models import Session
from django_agent_sessions.values.records import AgentRecord, Usage

from ._base import write
from ._queries import session_rows

logger = logging.getLogger("django_agent_sessions")


def touch(using: str, session: UUID, spent: Usage) -> None:
    """Set the session's last activity to now, and add usage to its counters."""

    def update(unsure: bool) -> None:
        # After a lost connection the counters may be updated already: count the tokens once
        # at the most.
        move_counters(session_rows(using).filter(pk=session), Usage() if unsure else spent)

    write(using, update, what="updating the session counters", savepoint=False)


def count_usage(using: str, agent: AgentRecord, spent: Usage) -> None:
    """Update the counters for written messages; outside a transaction, only log errors."""
    if connections[using].in_atomic_block:
        touch(using, agent.session, spent)
        return
    try:
        touch(using, agent.session, spent)
    except (Error, AgentSessionsError):
        logger.warning(
            "the counters of session %s were not updated and miss %s", agent.session, spent
        )


def move_counters(sessions: QuerySet[Session], by: Usage, **columns: Any) -> int:
    now = timezone.now()
    return sessions.update(
        last_activity_at=now,
        updated_at=now,
        message_count=F("message_count") + by.messages,
        **_added("input_tokens", by.input_tokens),
        **_added("output_tokens", by.output_tokens),
        **columns,
    )


def _added(column: str, tokens: int | None) -> dict[str, Any]:
    # An unknown number stays unknown until one is reported.
    return {} if tokens is None else {column: Coalesce(column, 0) + tokens}
