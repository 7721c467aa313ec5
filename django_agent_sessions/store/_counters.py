"""The counters of a session: messages, errors, tokens, last activity.

A message and its copies on other branches are counted once. The last activity is the time of the
last turn, or that of an append, which moves it if it is older than ``ACTIVITY_INTERVAL``. Rewinds
and deletions do not change it, because retention deletes by it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from django.db import Error, connections
from django.db.models import Case, F, QuerySet, When
from django.db.models.functions import Coalesce
from django.utils import timezone

from django_agent_sessions.db.retries import write
from django_agent_sessions.exceptions import AgentSessionsError
from django_agent_sessions.models import Session, SessionMessage
from django_agent_sessions.models.functions import error_count, message_count
from django_agent_sessions.values.records import AgentRecord, Usage

logger = logging.getLogger("django_agent_sessions")


def touch(using: str, session: UUID, spent: Usage, among: QuerySet[Session] | None = None) -> None:
    """Set the session's last activity to now, and add usage to its counters."""
    rows = Session.objects.using(using) if among is None else among

    def update(unsure: bool) -> None:
        # After a lost connection the counters may be updated already: count the tokens once
        # at the most.
        by = Usage() if unsure else spent
        if by != spent:
            logger.warning(
                "the counters of session %s may miss a turn, because the connection was lost while "
                "they were updated: manage.py agent_sessions_check --fix counts again",
                session,
            )
        if move_counters(rows.filter(pk=session), by) or among is None:
            return
        # MariaDB may have looked in the owner's index, where another update moved the session's
        # entry meanwhile, and then finds none.
        if among.filter(pk=session).exists():
            move_counters(Session.objects.using(using).filter(pk=session), by)

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


def move_counters(sessions: QuerySet[Session], by: Usage) -> int:
    now = timezone.now()
    return sessions.update(
        last_activity_at=now,
        updated_at=now,
        message_count=F("message_count") + by.messages,
        **(_added_errors(by.errors) if by.errors else {}),
        **_added("input_tokens", by.input_tokens),
        **_added("output_tokens", by.output_tokens),
        **_added("cache_read_tokens", by.cache_read_tokens),
        **_added("cache_write_tokens", by.cache_write_tokens),
        **_added("cost", by.cost),
    )


def _added(column: str, count: int | None) -> dict[str, Any]:
    # An unknown number stays unknown until one is reported.
    return {} if count is None else {column: Coalesce(column, 0) + count}


def _added_errors(count: int) -> dict[str, Any]:
    # First, because MariaDB assigns from left to right.
    has_errors = Case(When(error_count__gt=-count, then=True), default=False)
    return {"has_errors": has_errors, "error_count": F("error_count") + count}


def set_error_count(count: int) -> dict[str, Any]:
    """Return the columns of a session with this number of messages that report an error."""
    return {"error_count": count, "has_errors": count > 0}


def subtract_messages(
    sessions: QuerySet[Session], messages: int, errors: int = 0, **columns: Any
) -> int:
    """Subtract deleted messages. The tokens stay, because they were paid for."""
    return sessions.update(
        updated_at=timezone.now(),
        message_count=F("message_count") - messages,
        **(_added_errors(-errors) if errors else {}),
        **columns,
    )


@contextmanager
def recounting(using: str, agent: AgentRecord) -> Iterator[None]:
    """Subtract the agent's messages that the block deletes with all their copies, and the errors.

    Also counts the errors of messages that the block replaces. Requires the session's lock.
    """
    before, errors_before = _count_messages(using, agent)
    yield
    messages, errors = _count_messages(using, agent)
    subtract_messages(
        Session.objects.using(using).filter(pk=agent.session),
        before - messages,
        errors_before - errors,
    )


def _count_messages(using: str, agent: AgentRecord) -> tuple[int, int]:
    rows = SessionMessage.objects.using(using).filter(agent=agent.id).order_by()
    counts: dict[str, int] = rows.aggregate(messages=message_count(), errors=error_count())
    return counts["messages"], counts["errors"]
