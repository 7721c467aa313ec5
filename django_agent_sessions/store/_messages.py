"""Update, pop and clear an agent's messages."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F

from django_agent_sessions.blobs import Uploads, delete_unreferenced, is_enabled, restore_binaries
from django_agent_sessions.content import exact_json
from django_agent_sessions.db import notifications
from django_agent_sessions.exceptions import (
    LegalHoldError,
    SessionConflictError,
    SessionNotFoundError,
    StaleSessionError,
)
from django_agent_sessions.models import Session
from django_agent_sessions.models.fields import CorruptPayload, decode_payload
from django_agent_sessions.sql import message_writes
from django_agent_sessions.values.ids import new_id
from django_agent_sessions.values.records import AgentRecord, PositionedPayload, Usage

from ._append import MessageAppender, replacing_columns
from ._base import tracked_atomic, write
from ._rows import MessageRow
from ._statement_sizes import check_statement_size
from .locking import lock_session, with_session_lock


class MessageStore(MessageAppender):
    def update_message(
        self,
        agent: AgentRecord,
        message_id: int,
        message: Any,
        *,
        epoch: int | None = None,
        key: UUID | None = None,
    ) -> None:
        """Replace a message.

        Args:
            agent: The agent; its ``branch`` selects the branch.
            message_id: Its position.
            message: The new payload.
            epoch: Write only if the session's redaction epoch still has this value. Required of a
                caller who derives the payload from an earlier one, which may hold content that was
                redacted since.
            key: Write only if the row at this position has this primary key.

        Raises:
            SessionNotFoundError: There is no message at this position.
            StaleSessionError: The redaction epoch changed; or the message was redacted and no
                epoch was passed.
            PayloadError: The payload is not JSON or exceeds a limit.
            BlobError: A large binary could not be stored; nothing was written.
        """
        row = MessageRow(agent.dialect, message)
        columns = replacing_columns(row)
        check_statement_size(self.using, row.texts)
        what = f"updating message {message_id} of agent {agent.agent_id!r}"

        uploads = Uploads(self.using, agent.session, [row])

        def update(unsure: bool) -> int:
            # Slow uploads run before the locks are taken.
            with uploads.attempt():
                return update_row()

        def update_row() -> int:
            self._lock_session_row(agent.session)
            with nullcontext() if epoch is None else tracked_atomic(self.using):
                # A redaction locks the same row first, so it runs before or after this.
                if epoch is not None and self._locked_epoch(agent) not in (None, epoch):
                    raise StaleSessionError(
                        f"{what}: content was redacted; reload the session and retry"
                    )
                rows = self._messages(agent).filter(message_id=message_id)
                if key is not None:
                    rows = rows.filter(pk=key)
                if epoch is None:
                    rows = rows.filter(redacted_at__isnull=True)
                return self._update_row(agent, rows, columns, uploads)

        if not write(self.using, update, what=what):
            if epoch is None and self._messages(agent).filter(message_id=message_id).exists():
                raise StaleSessionError(
                    f"{what}: the message was redacted; read it again, and pass the redaction epoch"
                )
            raise SessionNotFoundError(f"{what}: the message does not exist")
        notifications.notify_written(self.using, agent.session)

    async def aupdate_message(
        self,
        agent: AgentRecord,
        message_id: int,
        message: Any,
        *,
        epoch: int | None = None,
        key: UUID | None = None,
    ) -> None:
        """Async twin of :meth:`update_message`."""
        await self._arun(self.update_message, agent, message_id, message, epoch=epoch, key=key)

    def pop(self, agent: AgentRecord) -> Any | None:
        """Delete and return the last message. Two concurrent callers never get the same one.

        Args:
            agent: The agent; its ``branch`` selects the branch.

        Returns:
            Its payload; None if the conversation is empty. A corrupt message is deleted too, and
            the one before it returned.

        Raises:
            LegalHoldError: The session is under legal hold; nothing was deleted.
            SessionConflictError: The connection was lost and it is unknown whether a message was
                deleted; or each attempt conflicted with another writer.
            BlobError: A large binary of the message cannot be read; nothing was deleted.
        """
        popped = self.pop_with_position(agent)
        return None if popped is None else popped.payload

    async def apop(self, agent: AgentRecord) -> Any | None:
        """Async twin of :meth:`pop`."""
        return await self._arun(self.pop, agent)

    def pop_with_position(self, agent: AgentRecord) -> PositionedPayload | None:
        """Delete the last message, and return it with its position. See ``pop``.

        Args:
            agent: The agent; its ``branch`` selects the branch.

        Returns:
            The message; None if the conversation is empty.

        Raises:
            LegalHoldError: The session is under legal hold; nothing was deleted.
            SessionConflictError: The connection was lost and it is unknown whether a message was
                deleted; or each attempt conflicted with another writer.
            BlobError: A large binary of the message cannot be read; nothing was deleted.
        """
        while (popped := self._pop_row(agent)) is not None:
            notifications.notify_written(self.using, agent.session)
            if not isinstance(popped.payload, CorruptPayload):
                return popped
        return None

    async def apop_with_position(self, agent: AgentRecord) -> PositionedPayload | None:
        """Async twin of :meth:`pop_with_position`."""
        return await self._arun(self.pop_with_position, agent)

    def clear(self, agent: AgentRecord, *, epoch: int | None = None) -> int:
        """Delete all messages of an agent's branch; the session and the agent stay.

        Args:
            agent: The agent; its ``branch`` selects the branch.
            epoch: Delete only if the session's redaction epoch still has this value.

        Returns:
            The number of deleted messages.

        Raises:
            StaleSessionError: The redaction epoch changed; nothing was deleted.
            LegalHoldError: The session is under legal hold; nothing was deleted.
        """
        what = f"clearing agent {agent.agent_id!r}"

        def delete(session: Session) -> int:
            if epoch not in (None, session.redaction_epoch):
                raise StaleSessionError(
                    f"{what}: content was redacted; reload the session and retry"
                )
            # The queryset checks for a legal hold itself, under the same lock.
            deleted = self._messages(agent).order_by().delete()[0]
            if deleted:
                session_row = self._all().filter(pk=agent.session)
                self._move_counters(session_row, Usage(messages=-deleted))
            if deleted and is_enabled():
                delete_unreferenced(self.using, agent.session)
            return deleted

        try:
            deleted = with_session_lock(self.using, agent.session, delete, what=what)
        except SessionNotFoundError:
            return 0
        if deleted:
            notifications.notify_written(self.using, agent.session)
        return deleted

    async def aclear(self, agent: AgentRecord, *, epoch: int | None = None) -> int:
        """Async twin of :meth:`clear`."""
        return await self._arun(self.clear, agent, epoch=epoch)

    def _locked_epoch(self, agent: AgentRecord) -> int | None:
        sessions = Session.objects.using(self.using).filter(pk=agent.session)
        return sessions.select_for_update().values_list("redaction_epoch", flat=True).first()

    def _pop_row(self, agent: AgentRecord) -> PositionedPayload | None:
        using = self.using
        what = f"popping from agent {agent.agent_id!r}"
        mark = new_id()
        unconfirmed: tuple[UUID, PositionedPayload] | None = None

        def pop(unsure: bool) -> PositionedPayload | None:
            nonlocal unconfirmed
            with tracked_atomic(using):
                if (
                    unsure
                    and unconfirmed is not None
                    and self._was_popped(agent, mark, unconfirmed[0], what)
                ):
                    return unconfirmed[1]
                # First, because it takes the lock that appends wait for.
                if not self._count_and_mark(agent, mark, what):
                    return None
                values = message_writes.pop(using, agent.id, branch=agent.branch)
                if values is None:
                    transaction.set_rollback(True, using)
                    return None
                # Raises, and so keeps the message, if one of its binaries is missing.
                popped = self._popped_payload(agent, *values[1:])
                unconfirmed = (values[0], popped)
                return popped

        return write(using, pop, what=what, savepoint=False)

    def _count_and_mark(self, agent: AgentRecord, mark: UUID, what: str) -> bool:
        """Decrement the message counter and write the mark, in the session's row."""
        free = self._all().filter(pk=agent.session, legal_hold=False)
        changed = {"last_write": mark, "change": F("change") + 1}
        if self._move_counters(free, Usage(messages=-1), **changed):
            return True
        check_session_not_held(self.using, agent, what)
        return False

    def _was_popped(self, agent: AgentRecord, mark: UUID, key: UUID, what: str) -> bool:
        """Return whether a pop was committed although its connection was lost."""
        # Locked, because a server may still commit after its client disconnected.
        session = lock_session(self.using, agent.session)
        if session is not None and session.last_write == mark:
            return True
        if self._messages(agent).filter(pk=key).exists():
            return False
        raise SessionConflictError(
            f"{what}: the connection was lost, and a message may have been deleted; read the "
            "conversation before the next pop"
        )

    def _popped_payload(
        self, agent: AgentRecord, position: int, text: str, redacted: bool
    ) -> PositionedPayload:
        payload = decode_payload(text)
        if exact_json.has_blobs(text) and not isinstance(payload, CorruptPayload):
            (payload,) = restore_binaries(
                self.using, agent.session, [payload], agent.dialect, taken=True
            )
            self._lock_session_row(agent.session)
            delete_unreferenced(self.using, agent.session)
        return PositionedPayload(position, payload, redacted)


def check_session_not_held(using: str, agent: AgentRecord, what: str) -> None:
    """Raise LegalHoldError if the session is under legal hold."""
    held = Session.objects.using(using).filter(pk=agent.session, legal_hold=True)
    if row := held.first():
        raise LegalHoldError(f"{what}: its session is under legal hold; release it first", [row])
