"""Append messages to an agent's conversation."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from typing import Any
from uuid import UUID

from django.db import connections, transaction
from django.db.models import Case, Exists, F, OuterRef, Q, QuerySet, Value, When
from django.utils import timezone

from django_agent_sessions.blobs import Uploads, is_enabled, update_references
from django_agent_sessions.db import notifications
from django_agent_sessions.db.db_errors import RetryError
from django_agent_sessions.exceptions import (
    SessionConflictError,
    SessionNotFoundError,
    StaleSessionError,
)
from django_agent_sessions.models import Session, SessionAgent, SessionMessage
from django_agent_sessions.models.fields import ExactJSONField
from django_agent_sessions.sql import message_writes
from django_agent_sessions.values.records import AgentRecord, MessageRecord, Usage

from ._base import tracked_atomic, write
from ._queries import lock_session_row, next_position, positions_of
from ._rows import MessageRow, database_values, message_rows, split_into_statements, total_usage
from ._statement_sizes import check_statement_size

logger = logging.getLogger("django_agent_sessions")


def append_messages(
    using: str,
    agent: AgentRecord,
    messages: Sequence[Any],
    *,
    run_id: UUID | None = None,
    expected: int | None = None,
    epoch: int | None = None,
    count: bool = True,
    again: bool = False,
) -> list[MessageRecord]:
    """Append messages: all of them or none. See :meth:`SessionStore.append_many`."""
    if not messages:
        return []
    rows = message_rows(agent.dialect, messages, run_id)
    positions = _rewrite(using, agent, rows) if again else {}
    new_rows = [row for row in rows if row.id not in positions] if positions else rows
    new_positions: Iterator[int] = iter(())
    if new_rows:
        usage = total_usage(new_rows) if count else None
        new_positions = itertools.count(
            _append_rows(using, agent, new_rows, expected, epoch, usage)
        )
    notifications.notify_written(using, agent.session)
    return [
        row.record(positions[row.id] if row.id in positions else next(new_positions))
        for row in rows
    ]


_UNDER_HOLD = Exists(Session.objects.filter(pk=OuterRef("session"), legal_hold=True))


def replacing_columns(row: MessageRow) -> dict[str, Any]:
    """Return the updated columns of a replaced message."""
    new = Value(row.stored, output_field=ExactJSONField())
    return {
        # Under legal hold the original stays.
        "message": Case(When(_UNDER_HOLD, then=F("message")), default=new),
        # Readers get the redacted version where there is one.
        "redact_message": Case(
            When(Q(redact_message__isnull=False) | Q(_UNDER_HOLD), then=new), default=None
        ),
        "revision": F("revision") + 1,
        **row.neutral_columns(),
    }


def _describe(agent: AgentRecord) -> str:
    return f"appending to agent {agent.agent_id!r}"


def _append_rows(
    using: str,
    agent: AgentRecord,
    rows: Sequence[MessageRow],
    expected: int | None,
    epoch: int | None,
    spent: Usage | None,
) -> int:
    parts = split_into_statements(rows)
    for part in parts:
        check_statement_size(using, (text for row in part for text in row.texts))
    uploads = Uploads(using, agent.session, rows)
    counting = None
    if spent is not None:
        counting = message_writes.CounterUpdate(agent.session, spent, timezone.now())
    counts_in_statement = counting is None or message_writes.can_count_in_append(using)
    one_statement = len(parts) == 1 and not uploads and counts_in_statement
    first_try = True

    def append(unsure: bool) -> int:
        nonlocal first_try
        if not first_try and (positions := _positions_of(using, rows)):
            return positions[rows[0].id]
        first_try = False
        with uploads.attempt() if uploads else nullcontext():
            with suppress(RetryError):
                return append_rows()
            _raise_reason(using, agent, expected, epoch)
            raise RetryError

    def append_rows() -> int:
        if one_statement:
            _lock_before_append(using, agent)
            return _append_part(using, agent, rows, expected, epoch, counting)
        with tracked_atomic(using):
            if uploads:
                lock_session_row(using, agent.session)
                uploads.store()
            else:
                _lock_before_append(using, agent)
            first = _append_parts(using, agent, parts, expected, epoch)
            if counting is not None:
                message_writes.update_counters(using, counting)
            uploads.create_references()
        return first

    # A savepoint is needed only where a conflict of positions aborts the transaction: on
    # PostgreSQL, for several rows (a single row has ON CONFLICT DO NOTHING).
    several = len(rows) > 1 and connections[using].vendor == "postgresql"
    return write(using, append, what=_describe(agent), savepoint=several)


def _append_parts(
    using: str,
    agent: AgentRecord,
    parts: Sequence[Sequence[MessageRow]],
    expected: int | None,
    epoch: int | None,
) -> int:
    first = _append_part(using, agent, parts[0], expected, epoch)
    position = first + len(parts[0])
    for part in parts[1:]:
        _append_part(using, agent, part, position, epoch)
        position += len(part)
    return first


def _append_part(
    using: str,
    agent: AgentRecord,
    rows: Sequence[MessageRow],
    expected: int | None,
    epoch: int | None,
    counting: message_writes.CounterUpdate | None = None,
) -> int:
    first = message_writes.append(
        using,
        agent.id,
        database_values(rows, using),
        branch=agent.branch,
        expected=expected,
        epoch=epoch,
        counting=counting,
    )
    if first is None:
        raise RetryError
    return first


def _lock_before_append(using: str, agent: AgentRecord) -> None:
    """Lock the session's row exclusively on MariaDB and MySQL.

    An append takes a shared lock on the row, and updating the counters needs an exclusive one:
    two concurrent transactions would deadlock on the upgrade.
    """
    if connections[using].vendor == "mysql":
        lock_session_row(using, agent.session)


def _rewrite(using: str, agent: AgentRecord, rows: Sequence[MessageRow]) -> dict[UUID, int]:
    """Update the rows that an earlier attempt wrote, and return their positions."""
    positions = _positions_of(using, rows)
    for row in rows:
        if row.id in positions:
            _rewrite_row(using, agent, row)
    return positions


def _rewrite_row(using: str, agent: AgentRecord, row: MessageRow) -> None:
    rows = SessionMessage.objects.using(using).filter(pk=row.id, redacted_at__isnull=True)
    columns = replacing_columns(row)
    uploads = Uploads(using, agent.session, [row])

    def update(unsure: bool) -> int:
        with uploads.attempt():
            return update_row(using, agent, rows, columns, uploads)

    write(using, update, what=_describe(agent))


def update_row(
    using: str,
    agent: AgentRecord,
    rows: QuerySet[SessionMessage],
    columns: Mapping[str, Any],
    uploads: Uploads,
) -> int:
    """Update one message and the binaries that it references."""
    if not uploads and not is_enabled():
        return rows.update(**columns)
    with tracked_atomic(using):
        lock_session_row(using, agent.session)
        uploads.store()
        key = rows.values_list("pk", flat=True).first()
        updated = rows.update(**columns)
        if key is not None and updated:
            update_references(using, agent.session, [key])
        else:
            transaction.set_rollback(True, using)
    if not updated:
        uploads.discard()
    return updated


def _positions_of(using: str, rows: Sequence[MessageRow]) -> dict[UUID, int]:
    return positions_of(using, [row.id for row in rows])


def _raise_reason(using: str, agent: AgentRecord, expected: int | None, epoch: int | None) -> None:
    """Raise the reason why nothing was appended, except for a conflict with a writer."""
    what = _describe(agent)
    current_epoch = (
        SessionAgent.objects.using(using)
        .filter(pk=agent.id)
        .values_list("session__redaction_epoch", flat=True)
        .first()
    )
    if current_epoch is None:
        raise SessionNotFoundError(f"{what}: the agent was deleted")
    if epoch is not None and current_epoch != epoch:
        raise StaleSessionError(f"{what}: content was redacted; reload the session and retry")
    if expected is not None and next_position(using, agent) != expected:
        raise SessionConflictError(
            f"{what}: another writer appended since position {expected} was read"
        )
