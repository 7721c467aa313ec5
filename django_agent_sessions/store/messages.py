"""Messages of an agent: update, pop, clear."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any
from uuid import UUID

from django.db import transaction

from django_agent_sessions import notifying, payloads, statements
from django_agent_sessions.blobs import Uploads, drop_messages, in_use, restored
from django_agent_sessions.exceptions import (
    LegalHoldError,
    SessionConflictError,
    SessionNotFoundError,
    StaleSessionError,
)
from django_agent_sessions.fields import CorruptPayload, read
from django_agent_sessions.ids import new_id
from django_agent_sessions.models import Session
from django_agent_sessions.records import AgentRecord, PlacedPayload, Usage

from .alone import alone_in, lock_session
from .appending import MessageAppender, replacing_columns
from .base import whole, write
from .rows import Row
from .statement_sizes import check_statement_size


class MessageStore(MessageAppender):
    """The part of the store that changes messages and takes them away."""

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
            BlobError: A large binary could not be stored; nothing was written.
        """
        row = Row(agent.dialect, message)
        columns = replacing_columns(row)
        check_statement_size(self.using, row.texts)
        what = f"updating message {message_id} of agent {agent.agent_id!r}"

        uploads = Uploads(self.using, agent.session, [row])

        def update(unsure: bool) -> int:
            # What takes long comes before the locks.
            with uploads.attempt():
                return update_row()

        def update_row() -> int:
            self._lock_session_first(agent.session)
            with nullcontext() if epoch is None else whole(self.using):
                # A redaction takes the session's row first, so it comes before this or after it.
                if epoch is not None and self._locked_epoch(agent) not in (None, epoch):
                    raise StaleSessionError(f"{what}: something was redacted; read it again")
                found = self._messages(agent).filter(message_id=message_id)
                if key is not None:
                    found = found.filter(pk=key)
                if epoch is None:
                    found = found.filter(redacted_at__isnull=True)
                return self._update_row(agent, found, columns, uploads)

        if not write(self.using, update, what=what):
            if epoch is None and self._messages(agent).filter(message_id=message_id).exists():
                raise StaleSessionError(
                    f"{what}: it was redacted; read it again, and give its epoch"
                )
            raise SessionNotFoundError(f"{what}: there is no such message")
        notifying.written(self.using, agent.session)

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

    def pop(self, agent: AgentRecord) -> Any | None:
        """Takes the last message away.

        No two callers get the same message.

        Args:
            agent: The agent whose conversation it is.

        Returns:
            Its payload; None if the conversation is empty. A corrupt message is taken away too,
            and the one before it returned.

        Raises:
            LegalHoldError: The session is under legal hold; nothing was taken.
            SessionConflictError: The connection was lost, so that it is not known whether a
                message was taken; or others were faster each time.
            BlobError: A large binary of it cannot be read; nothing was taken.
        """
        taken = self.pop_placed(agent)
        return None if taken is None else taken.payload

    async def apop(self, agent: AgentRecord) -> Any | None:
        """Does what :meth:`pop` does."""
        return await self._arun(self.pop, agent)

    def pop_placed(self, agent: AgentRecord) -> PlacedPayload | None:
        """Takes the last message away, and tells where it was.

        Args:
            agent: As for :meth:`pop`.

        Returns:
            What was taken; None if the conversation is empty.

        Raises:
            LegalHoldError: As for :meth:`pop`.
            SessionConflictError: As for :meth:`pop`.
            BlobError: As for :meth:`pop`.
        """
        while (taken := self._pop_row(agent)) is not None:
            notifying.written(self.using, agent.session)
            if not isinstance(taken.payload, CorruptPayload):
                return taken
        return None

    async def apop_placed(self, agent: AgentRecord) -> PlacedPayload | None:
        """Does what :meth:`pop_placed` does."""
        return await self._arun(self.pop_placed, agent)

    def clear(self, agent: AgentRecord, *, epoch: int | None = None) -> int:
        """Deletes all messages of an agent; the session and the agent stay.

        Args:
            agent: The agent whose conversation it is.
            epoch: Delete only if the session's redaction epoch is still this one.

        Returns:
            How many messages there were.

        Raises:
            StaleSessionError: The epoch moved; nothing was deleted.
            LegalHoldError: The session is under legal hold; nothing was deleted.
        """
        what = f"clearing agent {agent.agent_id!r}"

        def delete(session: Session) -> int:
            if epoch not in (None, session.redaction_epoch):
                raise StaleSessionError(f"{what}: something was redacted; read it again")
            # It looks for a legal hold itself, under the same lock.
            deleted = self._messages(agent).order_by().delete()[0]
            if deleted:
                session_row = self._all().filter(pk=agent.session)
                self._move_counters(session_row, Usage(messages=-deleted))
            if deleted and in_use():
                drop_messages(self.using, agent.session)
            return deleted

        try:
            deleted = alone_in(self.using, agent.session, delete, what=what)
        except SessionNotFoundError:
            return 0
        if deleted:
            notifying.written(self.using, agent.session)
        return deleted

    async def aclear(self, agent: AgentRecord, *, epoch: int | None = None) -> int:
        """Does what :meth:`clear` does."""
        return await self._arun(self.clear, agent, epoch=epoch)

    def _locked_epoch(self, agent: AgentRecord) -> int | None:
        sessions = Session.objects.using(self.using).filter(pk=agent.session)
        return sessions.select_for_update().values_list("redaction_epoch", flat=True).first()

    def _pop_row(self, agent: AgentRecord) -> PlacedPayload | None:
        using = self.using
        what = f"popping from agent {agent.agent_id!r}"
        mark = new_id()
        doubtful: tuple[UUID, PlacedPayload] | None = None

        def pop(unsure: bool) -> PlacedPayload | None:
            nonlocal doubtful
            with whole(using):
                if (
                    unsure
                    and doubtful is not None
                    and self._was_taken(agent, mark, doubtful[0], what)
                ):
                    return doubtful[1]
                # First, because it waits for those who append just now, and lets them wait.
                if not self._take_note(agent, mark, what):
                    return None
                found = statements.pop(using, agent.id, branch=agent.branch)
                if found is None:
                    transaction.set_rollback(True, using)
                    return None
                # What cannot be restored whole is not taken.
                taken = self._taken(agent, *found[1:])
                doubtful = (found[0], taken)
                return taken

        return write(using, pop, what=what, savepoint=False)

    def _take_note(self, agent: AgentRecord, mark: UUID, what: str) -> bool:
        """Counts one message less, and leaves a mark, in the session's row."""
        free = self._all().filter(pk=agent.session, legal_hold=False)
        if self._move_counters(free, Usage(messages=-1), last_write=mark):
            return True
        refuse_held(self.using, agent, what)
        return False

    def _was_taken(self, agent: AgentRecord, mark: UUID, key: UUID, what: str) -> bool:
        """Finds out whether a pop was committed whose connection was lost just then."""
        # Locked: a server may still commit what it was cut off from.
        session = lock_session(self.using, agent.session)
        if session is not None and session.last_write == mark:
            return True
        if self._messages(agent).filter(pk=key).exists():
            return False
        raise SessionConflictError(
            f"{what}: the connection was lost, and a message may have been taken; read the "
            "conversation before the next pop"
        )

    def _taken(self, agent: AgentRecord, position: int, text: str, redacted: bool) -> PlacedPayload:
        payload = read(text)
        if payloads.has_blobs(text) and not isinstance(payload, CorruptPayload):
            (payload,) = restored(self.using, agent.session, [payload], agent.dialect, taken=True)
            self._lock_session_first(agent.session)
            drop_messages(self.using, agent.session)
        return PlacedPayload(position, payload, redacted)


def refuse_held(using: str, agent: AgentRecord, what: str) -> None:
    """Says that a session is under legal hold, if that is why nothing happened."""
    held = Session.objects.using(using).filter(pk=agent.session, legal_hold=True)
    if row := held.first():
        raise LegalHoldError(f"{what}: its session is under legal hold; release it first", [row])
