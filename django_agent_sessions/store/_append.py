"""Append messages to an agent's conversation."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from typing import Any
from uuid import UUID

from django.db import Error, connections, transaction
from django.db.models import Case, Exists, F, OuterRef, Q, QuerySet, Value, When
from django.utils import timezone

from django_agent_sessions.blobs import Uploads, is_enabled, update_references
from django_agent_sessions.db import notifications
from django_agent_sessions.db.db_errors import RetryError
from django_agent_sessions.exceptions import (
    AgentSessionsError,
    SessionConflictError,
    SessionNotFoundError,
    StaleSessionError,
)
from django_agent_sessions.models import Session, SessionAgent, SessionMessage
from django_agent_sessions.models.fields import ExactJSONField
from django_agent_sessions.sql import message_writes
from django_agent_sessions.values.records import AgentRecord, MessageRecord, Usage

from ._base import tracked_atomic, write
from ._message_reading import MessageReader
from ._rows import MessageRow, database_values, message_rows, split_into_statements, total_usage
from ._sessions import SessionWriter
from ._statement_sizes import check_statement_size

logger = logging.getLogger("django_agent_sessions")


class MessageAppender(MessageReader, SessionWriter):
    def append(
        self,
        agent: AgentRecord,
        message: Any,
        *,
        run_id: UUID | None = None,
        expected: int | None = None,
        epoch: int | None = None,
        count: bool = True,
        again: bool = False,
    ) -> MessageRecord:
        """Append a message.

        Args:
            agent: The agent; its ``branch`` selects the branch.
            message: The payload (exact JSON, bytes allowed), or a ``NewMessage`` with it.
            run_id: Id of the invocation that wrote it. :meth:`restore` groups messages of
                concurrent invocations by it.
            expected: Write only if this is the next position.
            epoch: Write only if the session's redaction epoch still has this value.
            count: Whether to update the session's counters and last activity with the message. A
                caller that appends several messages in a turn passes False and calls :meth:`touch`
                at the end of the turn.
            again: Whether an earlier attempt with an unknown outcome may have written it already;
                it must then be the same ``NewMessage``.

        Returns:
            The message with its position.

        Raises:
            PayloadError: It is not JSON or exceeds a limit; nothing was written.
            SessionNotFoundError: The session or agent was deleted.
            SessionConflictError: The next position is not the expected one, or each attempt
                conflicted with another writer.
            StaleSessionError: The redaction epoch changed.
            BlobError: A large binary could not be stored; nothing was written.
        """
        return self.append_many(
            agent,
            [message],
            run_id=run_id,
            expected=expected,
            epoch=epoch,
            count=count,
            again=again,
        )[0]

    async def aappend(
        self,
        agent: AgentRecord,
        message: Any,
        *,
        run_id: UUID | None = None,
        expected: int | None = None,
        epoch: int | None = None,
        count: bool = True,
        again: bool = False,
    ) -> MessageRecord:
        """Async twin of :meth:`append`."""
        return await self._arun(
            self.append,
            agent,
            message,
            run_id=run_id,
            expected=expected,
            epoch=epoch,
            count=count,
            again=again,
        )

    def append_many(
        self,
        agent: AgentRecord,
        messages: Sequence[Any],
        *,
        run_id: UUID | None = None,
        expected: int | None = None,
        epoch: int | None = None,
        count: bool = True,
        again: bool = False,
    ) -> list[MessageRecord]:
        """Append several messages: all of them or none.

        Args:
            agent: The agent; its ``branch`` selects the branch.
            messages: The payloads, in order.
            run_id: See ``append``.
            expected: Write only if this is the next position, which the first message gets.
            epoch: See ``append``.
            count: See ``append``.
            again: See ``append``; any of the messages may be written already.

        Returns:
            The messages with their positions.

        Raises:
            PayloadError: A message is not JSON or exceeds a limit; nothing was written.
            SessionNotFoundError: The session or agent was deleted.
            SessionConflictError: The next position is not the expected one, or each attempt
                conflicted with another writer.
            StaleSessionError: The redaction epoch changed.
            BlobError: A large binary could not be stored; nothing was written.
        """
        if not messages:
            return []
        rows = message_rows(agent.dialect, messages, run_id)
        positions = self._rewrite(agent, rows) if again else {}
        new_rows = [row for row in rows if row.id not in positions] if positions else rows
        new_positions: Iterator[int] = iter(())
        if new_rows:
            usage = total_usage(new_rows) if count else None
            new_positions = itertools.count(
                self._append_rows(agent, new_rows, expected, epoch, usage)
            )
        notifications.notify_written(self.using, agent.session)
        return [
            row.record(positions[row.id] if row.id in positions else next(new_positions))
            for row in rows
        ]

    async def aappend_many(
        self,
        agent: AgentRecord,
        messages: Sequence[Any],
        *,
        run_id: UUID | None = None,
        expected: int | None = None,
        epoch: int | None = None,
        count: bool = True,
        again: bool = False,
    ) -> list[MessageRecord]:
        """Async twin of :meth:`append_many`."""
        return await self._arun(
            self.append_many,
            agent,
            messages,
            run_id=run_id,
            expected=expected,
            epoch=epoch,
            count=count,
            again=again,
        )

    def _append_rows(
        self,
        agent: AgentRecord,
        rows: Sequence[MessageRow],
        expected: int | None,
        epoch: int | None,
        spent: Usage | None,
    ) -> int:
        using = self.using
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
            if not first_try and (positions := self._positions_of(rows)):
                return positions[rows[0].id]
            first_try = False
            with uploads.attempt() if uploads else nullcontext():
                with suppress(RetryError):
                    return append_rows()
                self._raise_reason(agent, expected, epoch)
                raise RetryError

        def append_rows() -> int:
            if one_statement:
                self._lock_before_append(agent)
                return self._append_part(agent, rows, expected, epoch, counting)
            with tracked_atomic(using):
                if uploads:
                    self._lock_session_row(agent.session)
                    uploads.store()
                else:
                    self._lock_before_append(agent)
                first = self._append_parts(agent, parts, expected, epoch)
                if counting is not None:
                    message_writes.update_counters(using, counting)
                uploads.create_references()
            return first

        # A savepoint is needed only where a conflict of positions aborts the transaction: on
        # PostgreSQL, for several rows (a single row has ON CONFLICT DO NOTHING).
        several = len(rows) > 1 and connections[using].vendor == "postgresql"
        return write(using, append, what=_describe(agent), savepoint=several)

    def _append_parts(
        self,
        agent: AgentRecord,
        parts: Sequence[Sequence[MessageRow]],
        expected: int | None,
        epoch: int | None,
    ) -> int:
        first = self._append_part(agent, parts[0], expected, epoch)
        position = first + len(parts[0])
        for part in parts[1:]:
            self._append_part(agent, part, position, epoch)
            position += len(part)
        return first

    def _append_part(
        self,
        agent: AgentRecord,
        rows: Sequence[MessageRow],
        expected: int | None,
        epoch: int | None,
        counting: message_writes.CounterUpdate | None = None,
    ) -> int:
        first = message_writes.append(
            self.using,
            agent.id,
            database_values(rows, self.using),
            branch=agent.branch,
            expected=expected,
            epoch=epoch,
            counting=counting,
        )
        if first is None:
            raise RetryError
        return first

    def _lock_before_append(self, agent: AgentRecord) -> None:
        """Lock the session's row exclusively on MariaDB and MySQL.

        An append takes a shared lock on the row, and updating the counters needs an exclusive one:
        two concurrent transactions would deadlock on the upgrade.
        """
        if connections[self.using].vendor == "mysql":
            self._lock_session_row(agent.session)

    def _count(self, agent: AgentRecord, spent: Usage) -> None:
        """Update the counters for written messages; outside a transaction, only log errors."""
        if connections[self.using].in_atomic_block:
            self.touch(agent.session, spent)
            return
        try:
            self.touch(agent.session, spent)
        except (Error, AgentSessionsError):
            logger.warning(
                "the counters of session %s were not updated and miss %s", agent.session, spent
            )

    def _rewrite(self, agent: AgentRecord, rows: Sequence[MessageRow]) -> dict[UUID, int]:
        """Update the rows that an earlier attempt wrote, and return their positions."""
        positions = self._positions_of(rows)
        for row in rows:
            if row.id in positions:
                self._rewrite_row(agent, row)
        return positions

    def _rewrite_row(self, agent: AgentRecord, row: MessageRow) -> None:
        rows = SessionMessage.objects.using(self.using).filter(pk=row.id, redacted_at__isnull=True)
        columns = replacing_columns(row)
        uploads = Uploads(self.using, agent.session, [row])

        def update(unsure: bool) -> int:
            with uploads.attempt():
                return self._update_row(agent, rows, columns, uploads)

        write(self.using, update, what=_describe(agent))

    def _update_row(
        self,
        agent: AgentRecord,
        rows: QuerySet[SessionMessage],
        columns: Mapping[str, Any],
        uploads: Uploads,
    ) -> int:
        """Update one message and the binaries that it references."""
        if not uploads and not is_enabled():
            return rows.update(**columns)
        with tracked_atomic(self.using):
            self._lock_session_row(agent.session)
            uploads.store()
            key = rows.values_list("pk", flat=True).first()
            updated = rows.update(**columns)
            if key is not None and updated:
                update_references(self.using, agent.session, [key])
            else:
                transaction.set_rollback(True, self.using)
        if not updated:
            uploads.discard()
        return updated

    def _positions_of(self, rows: Sequence[MessageRow]) -> dict[UUID, int]:
        return self.positions([row.id for row in rows])

    def _raise_reason(self, agent: AgentRecord, expected: int | None, epoch: int | None) -> None:
        """Raise the reason why nothing was appended, except for a conflict with a writer."""
        what = _describe(agent)
        current_epoch = (
            SessionAgent.objects.using(self.using)
            .filter(pk=agent.id)
            .values_list("session__redaction_epoch", flat=True)
            .first()
        )
        if current_epoch is None:
            raise SessionNotFoundError(f"{what}: the agent was deleted")
        if epoch is not None and current_epoch != epoch:
            raise StaleSessionError(f"{what}: content was redacted; reload the session and retry")
        if expected is not None and self.next_position(agent) != expected:
            raise SessionConflictError(
                f"{what}: another writer appended since position {expected} was read"
            )


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
