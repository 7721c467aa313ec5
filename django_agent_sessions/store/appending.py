"""Appending messages to an agent's conversation."""

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

from django_agent_sessions import notifying, statements
from django_agent_sessions.blobs import Uploads, in_use, note_uses
from django_agent_sessions.exceptions import (
    AgentSessionsError,
    SessionConflictError,
    SessionNotFoundError,
    StaleSessionError,
)
from django_agent_sessions.fields import ExactJSONField
from django_agent_sessions.models import Session, SessionAgent, SessionMessage
from django_agent_sessions.records import AgentRecord, MessageRecord, Usage
from django_agent_sessions.transient import TryAgainError

from .base import whole, write
from .reading import MessageReader
from .rows import Row, chunks, rows_of, usage_of, values_of
from .sessions import SessionWriter
from .statement_sizes import check_statement_size

logger = logging.getLogger("django_agent_sessions")


class MessageAppender(MessageReader, SessionWriter):
    """The part of the store that appends messages."""

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
        """Writes a message behind the last one.

        Args:
            agent: The agent whose conversation it is.
            message: The payload (exact JSON, bytes allowed), or a ``NewMessage`` with it.
            run_id: Marks the messages of one invocation, so that two that interleaved are
                restored one after the other.
            expected: Write only if this is the next position.
            epoch: Write only if the session's redaction epoch is still this one.
            count: Whether to move the session's counters and last activity too, together with
                the message. Whoever appends several in a turn says False, and :meth:`touch` at
                its end.
            again: Whether it may be written already, by a try whose outcome is unknown; it must
                then be the same ``NewMessage``.

        Returns:
            The message with its position.

        Raises:
            PayloadError: It is not JSON or over a limit; nothing was written.
            SessionNotFoundError: The session or agent was deleted.
            SessionConflictError: The next position is not the expected one, or other writers
                were faster each time.
            StaleSessionError: Something was redacted since that epoch.
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
        """Does what :meth:`append` does."""
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
        """Writes several messages behind the last one: all of them or none.

        Args:
            agent: The agent whose conversation it is.
            messages: The payloads, in order.
            run_id: As for :meth:`append`.
            expected: As for :meth:`append`, for the first of them.
            epoch: As for :meth:`append`.
            count: As for :meth:`append`.
            again: As for :meth:`append`, for any of them.

        Returns:
            The messages with their positions.

        Raises:
            PayloadError: As for :meth:`append`.
            SessionNotFoundError: As for :meth:`append`.
            SessionConflictError: As for :meth:`append`.
            StaleSessionError: As for :meth:`append`.
            BlobError: As for :meth:`append`.
        """
        if not messages:
            return []
        rows = rows_of(agent.dialect, messages, run_id)
        there = self._rewrite(agent, rows) if again else {}
        missing = [row for row in rows if row.id not in there] if there else rows
        places: Iterator[int] = iter(())
        if missing:
            spent = usage_of(missing) if count else None
            places = itertools.count(self._append_rows(agent, missing, expected, epoch, spent))
        notifying.written(self.using, agent.session)
        return [row.record(there[row.id] if row.id in there else next(places)) for row in rows]

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
        """Does what :meth:`append_many` does."""
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
        rows: Sequence[Row],
        expected: int | None,
        epoch: int | None,
        spent: Usage | None,
    ) -> int:
        using = self.using
        parts = chunks(rows)
        for part in parts:
            check_statement_size(using, (text for row in part for text in row.texts))
        uploads = Uploads(using, agent.session, rows)
        counting = None
        if spent is not None:
            counting = statements.Counting(agent.session, spent, timezone.now())
        counted = counting is None or statements.counts_along(using)
        one_statement = len(parts) == 1 and not uploads and counted
        first_try = True

        def append(unsure: bool) -> int:
            nonlocal first_try
            if not first_try and (there := self._positions_of(rows)):
                return there[rows[0].id]
            first_try = False
            with uploads.attempt() if uploads else nullcontext():
                with suppress(TryAgainError):
                    return append_rows()
                self._explain(agent, expected, epoch)
                raise TryAgainError

        def append_rows() -> int:
            if one_statement:
                self._lock_before_append(agent)
                return self._append_part(agent, rows, expected, epoch, counting)
            # All of it is one commit.
            with whole(using):
                if uploads:
                    self._lock_session_first(agent.session)
                    uploads.store()
                else:
                    self._lock_before_append(agent)
                first = self._append_parts(agent, parts, expected, epoch)
                if counting is not None:
                    statements.count(using, counting)
                uploads.refer()
            return first

        # A single row that meets another is no error on any vendor that a savepoint would undo.
        several = len(rows) > 1 and connections[using].vendor == "postgresql"
        return write(using, append, what=_what(agent), savepoint=several)

    def _append_parts(
        self,
        agent: AgentRecord,
        parts: Sequence[Sequence[Row]],
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
        rows: Sequence[Row],
        expected: int | None,
        epoch: int | None,
        counting: statements.Counting | None = None,
    ) -> int:
        first = statements.append(
            self.using,
            agent.id,
            values_of(rows, self.using),
            branch=agent.branch,
            expected=expected,
            epoch=epoch,
            counting=counting,
        )
        if first is None:
            raise TryAgainError
        return first

    def _lock_before_append(self, agent: AgentRecord) -> None:
        """Takes the session's row before MariaDB and MySQL share it with others.

        An append shares the row while it looks at it, and counting the turn then wants it
        alone: two transactions that both did the first would wait for each other for ever.
        """
        if connections[self.using].vendor == "mysql":
            self._lock_session_first(agent.session)

    def _count(self, agent: AgentRecord, spent: Usage) -> None:
        """Moves the counters for what is written already, and so must not fail any more."""
        if connections[self.using].in_atomic_block:
            self.touch(agent.session, spent)
            return
        try:
            self.touch(agent.session, spent)
        except (Error, AgentSessionsError):
            logger.warning("the counters of session %s fell behind by %s", agent.session, spent)

    def _rewrite(self, agent: AgentRecord, rows: Sequence[Row]) -> dict[UUID, int]:
        """Brings those rows that are written already up to date with what they should hold."""
        there = self._positions_of(rows)
        for row in rows:
            if row.id in there:
                self._rewrite_row(agent, row)
        return there

    def _rewrite_row(self, agent: AgentRecord, row: Row) -> None:
        found = SessionMessage.objects.using(self.using).filter(pk=row.id, redacted_at__isnull=True)
        columns = replacing_columns(row)
        uploads = Uploads(self.using, agent.session, [row])

        def update(unsure: bool) -> int:
            with uploads.attempt():
                return self._update_row(agent, found, columns, uploads)

        write(self.using, update, what=_what(agent))

    def _update_row(
        self,
        agent: AgentRecord,
        found: QuerySet[SessionMessage],
        columns: Mapping[str, Any],
        uploads: Uploads,
    ) -> int:
        """Updates one message, and says anew which binaries it uses."""
        if not uploads and not in_use():
            return found.update(**columns)
        with whole(self.using):
            self._lock_session_first(agent.session)
            uploads.store()
            key = found.values_list("pk", flat=True).first()
            updated = found.update(**columns)
            if key is not None and updated:
                note_uses(self.using, agent.session, [key])
            else:
                transaction.set_rollback(True, self.using)
        if not updated:
            uploads.discard()
        return updated

    def _positions_of(self, rows: Sequence[Row]) -> dict[UUID, int]:
        return self.positions([row.id for row in rows])

    def _explain(self, agent: AgentRecord, expected: int | None, epoch: int | None) -> None:
        """Raises the reason why nothing was appended, if it is not only another writer."""
        what = _what(agent)
        found = (
            SessionAgent.objects.using(self.using)
            .filter(pk=agent.id)
            .values_list("session__redaction_epoch", flat=True)
            .first()
        )
        if found is None:
            raise SessionNotFoundError(f"{what}: it was deleted")
        if epoch is not None and found != epoch:
            raise StaleSessionError(f"{what}: something was redacted; read it again")
        if expected is not None and self.next_position(agent) != expected:
            raise SessionConflictError(
                f"{what}: another writer appended since position {expected} was read"
            )


_HELD = Exists(Session.objects.filter(pk=OuterRef("session"), legal_hold=True))


def replacing_columns(row: Row) -> dict[str, Any]:
    """Makes the columns of a message that is replaced by another."""
    new = Value(row.stored, output_field=ExactJSONField())
    return {
        # Under legal hold, what was said first stays.
        "message": Case(When(_HELD, then=F("message")), default=new),
        # Where there is a redacted version, that is what everybody reads.
        "redact_message": Case(
            When(Q(redact_message__isnull=False) | Q(_HELD), then=new), default=None
        ),
        "revision": F("revision") + 1,
        **row.neutral_columns(),
    }


def _what(agent: AgentRecord) -> str:
    return f"appending to agent {agent.agent_id!r}"
