"""Messages of an agent: append, read, update, redact, pop, clear."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any
from uuid import UUID

from django.db import Error, connections, transaction
from django.db.models import Case, F, Value, When

from django_agent_sessions import statements
from django_agent_sessions.exceptions import (
    AgentSessionsError,
    SessionConflictError,
    SessionNotFoundError,
    StaleSessionError,
)
from django_agent_sessions.fields import CorruptPayload, ExactJSONField, read
from django_agent_sessions.models import Session, SessionAgent, SessionMessage
from django_agent_sessions.records import AgentRecord, MessageRecord, Usage
from django_agent_sessions.workers import refresh

from .base import write
from .reading import MessageReader
from .rows import Row, chunks
from .sessions import SessionsStore
from .vendors import check_statement_size, overwrite_leftovers

logger = logging.getLogger("django_agent_sessions")


class MessageStore(MessageReader, SessionsStore):
    """The part of the store that writes messages."""

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
            count: Whether to move the session's counters and last activity too, with one more
                statement. Whoever appends several in a turn says False, and :meth:`touch` at
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
        """
        if not messages:
            return []
        rows = [Row(agent.dialect, message, run_id) for message in messages]
        there = self._rewrite(rows) if again else {}
        missing = [row for row in rows if row.id not in there]
        if missing:
            first = self._append_rows(agent, missing, expected, epoch)
            there |= {row.id: first + position for position, row in enumerate(missing)}
            if count:
                self._count(agent, sum((row.usage for row in missing), Usage()))
        return [row.record(there[row.id]) for row in rows]

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

    def update_message(
        self,
        agent: AgentRecord,
        message_id: int,
        message: Any,
        *,
        epoch: int | None = None,
        key: UUID | None = None,
    ) -> None:
        """Replaces a message.

        Args:
            agent: The agent whose conversation it is.
            message_id: Its position.
            message: The new payload.
            epoch: Write only if the session's redaction epoch is still this one: whoever makes
                the payload from an older one must not bring back what was redacted.
            key: Write only if the row at this position has this primary key.

        Raises:
            SessionNotFoundError: There is no message at this position.
            StaleSessionError: The epoch moved; or none was given and the message was redacted.
            PayloadError: The payload is not JSON or over a limit.
        """
        row = Row(agent.dialect, message)
        check_statement_size(self.using, row.texts)
        what = f"updating message {message_id} of agent {agent.agent_id!r}"

        def update(unsure: bool) -> int:
            with nullcontext() if epoch is None else transaction.atomic(self.using):
                # A redaction takes the session's row first, so it comes before this or after it.
                if epoch is not None and self._locked_epoch(agent) not in (None, epoch):
                    raise StaleSessionError(f"{what}: something was redacted; read it again")
                found = self._messages(agent).filter(message_id=message_id)
                if key is not None:
                    found = found.filter(pk=key)
                if epoch is None:
                    found = found.filter(redacted_at__isnull=True)
                return found.update(
                    message=message,
                    # Where there is a redacted version, that is what everybody reads.
                    redact_message=_unless_null("redact_message", message),
                    revision=F("revision") + 1,
                    **row.neutral_columns(),
                )

        if not write(self.using, update, what=what):
            if epoch is None and self._messages(agent).filter(message_id=message_id).exists():
                raise StaleSessionError(
                    f"{what}: it was redacted; read it again, and give its epoch"
                )
            raise SessionNotFoundError(f"{what}: there is no such message")

    async def aupdate_message(
        self,
        agent: AgentRecord,
        message_id: int,
        message: Any,
        *,
        epoch: int | None = None,
        key: UUID | None = None,
    ) -> None:
        """Does what :meth:`update_message` does."""
        await self._arun(self.update_message, agent, message_id, message, epoch=epoch, key=key)

    def redact_message(
        self, agent: AgentRecord, message_id: int, redacted: Any, *, key: UUID | None = None
    ) -> int:
        """Overwrites a message by its redacted version; the original is gone for good.

        On SQLite the free pages and the write-ahead log are overwritten too.

        Args:
            agent: The agent whose conversation it is.
            message_id: Its position.
            redacted: What to keep in its place.
            key: Redact only if the row at this position has this primary key.

        Returns:
            The session's new redaction epoch.

        Raises:
            SessionNotFoundError: There is no message at this position.
            PayloadError: The redacted version is not JSON or over a limit.
        """
        row = Row(agent.dialect, redacted)
        check_statement_size(self.using, row.texts * 2)
        what = f"redacting message {message_id} of agent {agent.agent_id!r}"

        def redact(unsure: bool) -> int:
            with overwrite_leftovers(self.using), transaction.atomic(self.using):
                # The session's row first, as every writer of two tables does: no deadlock.
                sessions = Session.objects.using(self.using).filter(pk=agent.session)
                sessions.update(redaction_epoch=F("redaction_epoch") + 1, updated_at=row.created_at)
                found = self._messages(agent).filter(message_id=message_id)
                if key is not None:
                    found = found.filter(pk=key)
                if not found.update(
                    message=redacted,
                    redact_message=redacted,
                    redacted_at=row.created_at,
                    revision=F("revision") + 1,
                    **row.neutral_columns(),
                ):
                    raise SessionNotFoundError(f"{what}: there is no such message")
                return sessions.values_list("redaction_epoch", flat=True).get()

        return write(self.using, redact, what=what)

    async def aredact_message(
        self, agent: AgentRecord, message_id: int, redacted: Any, *, key: UUID | None = None
    ) -> int:
        """Does what :meth:`redact_message` does."""
        return await self._arun(self.redact_message, agent, message_id, redacted, key=key)

    def pop(self, agent: AgentRecord) -> Any | None:
        """Takes the last message away.

        No two callers get the same message.

        Args:
            agent: The agent whose conversation it is.

        Returns:
            Its payload; None if the conversation is empty. A corrupt message is taken away too,
            and the one before it returned.

        Raises:
            SessionConflictError: The connection was lost, so that it is not known whether a
                message was taken; or others were faster each time.
        """
        while True:
            taken, text = self._pop_text(agent)
            if not taken:
                return None
            self._count(agent, Usage(messages=-1))
            payload = read(text)
            if not isinstance(payload, CorruptPayload):
                return payload

    async def apop(self, agent: AgentRecord) -> Any | None:
        """Does what :meth:`pop` does."""
        return await self._arun(self.pop, agent)

    def clear(self, agent: AgentRecord) -> int:
        """Deletes all messages of an agent; the session and the agent stay.

        Args:
            agent: The agent whose conversation it is.

        Returns:
            How many messages there were.
        """

        def delete(unsure: bool) -> int:
            return self._messages(agent).order_by().delete()[0]

        deleted = write(self.using, delete, what=f"clearing agent {agent.agent_id!r}")
        if deleted:
            self._count(agent, Usage(messages=-deleted))
        return deleted

    async def aclear(self, agent: AgentRecord) -> int:
        """Does what :meth:`clear` does."""
        return await self._arun(self.clear, agent)

    def _append_rows(
        self, agent: AgentRecord, rows: Sequence[Row], expected: int | None, epoch: int | None
    ) -> int:
        using = self.using
        parts = chunks(rows)
        for part in parts:
            check_statement_size(using, [text for row in part for text in row.texts])
        what = f"appending to agent {agent.agent_id!r}"

        first_try = True

        def append(unsure: bool) -> int | None:
            nonlocal first_try
            if not first_try and (there := self._positions_of(rows)):
                return there[rows[0].id]
            first_try = False
            self._lock_before_append(agent)
            if len(parts) == 1:
                values = [row.values(using) for row in rows]
                first = statements.append(using, agent.id, values, expected=expected, epoch=epoch)
            else:
                first = self._append_parts(agent, parts, expected, epoch)
            if first is None:
                self._explain(agent, what, expected, epoch)
            return first

        # A single row that meets another is no error on any vendor that a savepoint would undo.
        several = len(rows) > 1 and connections[using].vendor == "postgresql"
        return write(using, append, what=what, savepoint=several)

    def _append_parts(
        self,
        agent: AgentRecord,
        parts: Sequence[Sequence[Row]],
        expected: int | None,
        epoch: int | None,
    ) -> int | None:
        using = self.using
        first = None
        with transaction.atomic(using):
            for part in parts:
                values = [row.values(using) for row in part]
                position = statements.append(
                    using, agent.id, values, expected=expected, epoch=epoch
                )
                if position is None:
                    transaction.set_rollback(True, using)
                    return None
                first = position if first is None else first
                expected = position + len(part)
        return first

    def _locked_epoch(self, agent: AgentRecord) -> int | None:
        sessions = Session.objects.using(self.using).filter(pk=agent.session)
        return sessions.select_for_update().values_list("redaction_epoch", flat=True).first()

    def _lock_before_append(self, agent: AgentRecord) -> None:
        """Takes the session's row before MariaDB and MySQL share it with others.

        An append shares the row because of its foreign key, and counting the turn then wants it
        alone: two transactions that both did the first would wait for each other for ever.
        """
        connection = connections[self.using]
        if connection.vendor == "mysql" and connection.in_atomic_block:
            sessions = Session.objects.using(self.using).filter(pk=agent.session)
            sessions.select_for_update().values_list("pk").first()

    def _count(self, agent: AgentRecord, spent: Usage) -> None:
        """Moves the counters for what is written already, and so must not fail any more."""
        if connections[self.using].in_atomic_block:
            self.touch(agent.session, spent)
            return
        try:
            self.touch(agent.session, spent)
        except (Error, AgentSessionsError):
            logger.warning("the counters of session %s fell behind by %s", agent.session, spent)

    def _rewrite(self, rows: Sequence[Row]) -> dict[UUID, int]:
        """Brings those rows that are written already up to date with what they should hold."""
        there = self._positions_of(rows)
        for row in rows:
            if row.id in there:
                SessionMessage.objects.using(self.using).filter(
                    pk=row.id, redacted_at__isnull=True
                ).update(message=row.message, **row.neutral_columns())
        return there

    def _positions_of(self, rows: Sequence[Row]) -> dict[UUID, int]:
        return self.positions([row.id for row in rows])

    def _explain(
        self, agent: AgentRecord, what: str, expected: int | None, epoch: int | None
    ) -> None:
        """Raises the reason why nothing was appended, if it is not only another writer."""
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
        if expected is not None:
            last = self._messages(agent).order_by("-message_id")
            there = last.values_list("message_id", flat=True).first()
            if (-1 if there is None else there) + 1 != expected:
                raise SessionConflictError(
                    f"{what}: another writer appended since position {expected} was read"
                )

    def _pop_text(self, agent: AgentRecord) -> tuple[bool, str]:
        using = self.using
        what = f"popping from agent {agent.agent_id!r}"
        if not connections[using].in_atomic_block:
            # A connection that the server has ended meanwhile puts nothing in doubt.
            refresh(connections[using])

        def pop(unsure: bool) -> tuple[bool, str] | None:
            if unsure:
                # A second message might be taken without anybody having seen the first.
                raise SessionConflictError(
                    f"{what}: the connection was lost, and a message may have been taken; read "
                    "the conversation before the next pop"
                )
            taken, text = statements.pop(using, agent.id)
            # Nothing taken may mean that another caller was faster.
            return None if not taken and self._messages(agent).exists() else (taken, text)

        return write(using, pop, what=what, savepoint=False)


def _unless_null(field: str, value: Any) -> Case:
    """The value for a field of a message where it has one already."""
    new = Value(value, output_field=ExactJSONField())
    return Case(When(**{f"{field}__isnull": False}, then=new), default=F(field))
