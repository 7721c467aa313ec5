"""The messages of a conversation."""

from __future__ import annotations

import builtins
from collections.abc import Collection, Sequence
from contextlib import nullcontext
from typing import Any
from uuid import UUID

from django_agent_sessions import audit
from django_agent_sessions.db.retries import retry_reads, tracked_atomic, write
from django_agent_sessions.db.write_hooks import on_written
from django_agent_sessions.exceptions import SessionNotFoundError, StaleSessionError
from django_agent_sessions.models import Session, SessionMessage
from django_agent_sessions.sql.statement_sizes import check_statement_size
from django_agent_sessions.values.records import (
    AgentRecord,
    MessageRecord,
    PositionedPayload,
    RestoredMessage,
)
from django_agent_sessions.values.run_context import current_run

from ._context import StorePart, twin
from ._message_deletion import pop_message
from ._message_reading import (
    RECORD_COLUMNS,
    read_positioned,
    read_records,
    read_to_restore,
)
from ._message_updates import update_row
from ._queries import conversation, lock_session_row, next_position, positions_of
from ._redacted_originals import has_originals, without_originals
from ._redaction import redact_at
from ._rows import MessageRow, uploads_of


class Messages(StorePart):
    """The operations of a store on messages, except the most common ones."""

    @retry_reads
    def find(self, agent: AgentRecord, message_id: int) -> MessageRecord | None:
        """Read a message.

        Args:
            agent: The agent; its ``branch`` selects the branch.
            message_id: Its position.

        Returns:
            The message; None if it does not exist or is corrupt.
        """
        rows = conversation(self.using, agent).filter(message_id=message_id)
        records = read_records(self.using, agent, rows.values_list(*RECORD_COLUMNS))
        return records[0] if records else None

    afind = twin(find)

    @retry_reads
    def list(
        self, agent: AgentRecord, *, limit: int | None = None, offset: int = 0
    ) -> builtins.list[MessageRecord]:
        """Read messages from the beginning.

        Args:
            agent: The agent; its ``branch`` selects the branch.
            limit: Maximum number of messages; None reads all.
            offset: Number of messages to skip.

        Returns:
            The messages in order. Corrupt ones are skipped and logged with their ids.
        """
        rows = conversation(self.using, agent)
        stop = None if limit is None else offset + limit
        return read_records(self.using, agent, rows[offset:stop].values_list(*RECORD_COLUMNS))

    alist = twin(list)

    @retry_reads
    def latest(self, agent: AgentRecord, count: int) -> builtins.list[MessageRecord]:
        """Read the last messages.

        Args:
            agent: The agent; its ``branch`` selects the branch.
            count: Maximum number of messages; 0 or less reads none.

        Returns:
            The messages in order. Corrupt ones are skipped and logged with their ids.
        """
        if count <= 0:
            return []
        rows = conversation(self.using, agent).order_by("-message_id")[:count]
        return read_records(self.using, agent, rows.values_list(*RECORD_COLUMNS))[::-1]

    alatest = twin(latest)

    def positioned(
        self, agent: AgentRecord, *, latest: int | None = None
    ) -> builtins.list[PositionedPayload]:
        """Read payloads, the position of each, and whether it was redacted.

        Args:
            agent: The agent; its ``branch`` selects the branch.
            latest: Read only this number of last messages; None reads all, 0 or less none.

        Returns:
            The payloads in order. Corrupt ones are skipped and logged; ``latest`` does not count
            them.
        """
        return read_positioned(self.using, agent, latest)

    apositioned = twin(positioned)

    @retry_reads
    def redacted_elsewhere(self, agent: AgentRecord) -> builtins.list[MessageRecord]:
        """Read the redacted messages of the other branches.

        A message may have been moved there since the caller read it.

        Args:
            agent: The agent; its ``branch`` is the branch that is not read.

        Returns:
            The messages, by branch and position.
        """
        rows = SessionMessage.objects.using(self.using).filter(agent=agent.id)
        redacted = rows.exclude(branch=agent.branch).filter(redacted_at__isnull=False)
        values = redacted.order_by("branch", "message_id").values_list(*RECORD_COLUMNS)
        return read_records(self.using, agent, values)

    aredacted_elsewhere = twin(redacted_elsewhere)

    @retry_reads
    def has_originals(self, agent: AgentRecord, *, ancestors: Collection[UUID] = ()) -> bool:
        """Return whether :meth:`without_originals` may find any in the agent's session.

        Args:
            agent: The agent.
            ancestors: The sessions of which its session is a fork; their redacted messages are
                recognized, too.

        Returns:
            Whether messages were redacted that are recognized again.
        """
        return has_originals(self.using, agent, ancestors)

    ahas_originals = twin(has_originals)

    @retry_reads
    def without_originals(
        self, agent: AgentRecord, messages: Sequence[Any], *, ancestors: Collection[UUID] = ()
    ) -> builtins.list[Any]:
        """Replace originals of redacted messages, which a caller had in memory.

        They are recognized by keyed digests of whole messages; those with less than 12 letters are
        not, because they may be said again.

        Args:
            agent: The agent.
            messages: Payloads, such as a caller's copy of the conversation.
            ancestors: The sessions of which its session is a fork; their redacted messages are
                recognized, too.

        Returns:
            The payloads; redacted ones in their redacted version. If that was deleted, or belongs
            to another owner, the whole message is masked.
        """
        return without_originals(self.using, agent, messages, ancestors)

    awithout_originals = twin(without_originals)

    def restore(self, agent: AgentRecord, *, offset: int = 0) -> builtins.list[RestoredMessage]:
        """Read a conversation as the input of a model.

        Without a window, and after its ``kept`` messages, those of concurrent invocations are
        grouped by invocation, in order of their first messages, so that each tool call is followed
        by its result.

        Args:
            agent: The agent; its ``branch`` selects the branch. Messages outside its ``window`` are
                skipped.
            offset: Number of messages to skip if there is no window.

        Returns:
            Position, payload and ``run_id`` of each message. The position is None for a message
            that only the agent has, such as a summary. A message that the agent had in another
            form is restored in that form. Corrupt ones are skipped and logged.
        """
        return read_to_restore(self.using, agent, offset)

    arestore = twin(restore)

    def next_position(self, agent: AgentRecord) -> int:
        """Return the position that the next message gets.

        Args:
            agent: The agent; its ``branch`` selects the branch.

        Returns:
            The position after the last message; a corrupt message and one outside the window count.
        """
        return next_position(self.using, agent)

    anext_position = twin(next_position)

    def positions(self, keys: Collection[UUID]) -> dict[UUID, int]:
        """Return the positions of the messages that exist.

        Args:
            keys: Primary keys of messages.

        Returns:
            The positions by primary key.
        """
        return positions_of(self.using, keys)

    apositions = twin(positions)

    def update(
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
        check_statement_size(self.using, row.texts)
        what = f"updating message {message_id} of agent {agent.agent_id!r}"

        uploads = uploads_of(self.using, agent.session, [row])

        def update(unsure: bool) -> int:
            # Slow uploads run before the locks are taken.
            with uploads.attempt():
                return replace()

        def replace() -> int:
            lock_session_row(self.using, agent.session)
            with nullcontext() if epoch is None else tracked_atomic(self.using):
                # A redaction locks the same row first, so it runs before or after this.
                if epoch is not None and _locked_epoch(self.using, agent) not in (None, epoch):
                    raise StaleSessionError(
                        f"{what}: content was redacted; reload the session and retry"
                    )
                rows = conversation(self.using, agent).filter(message_id=message_id)
                if key is not None:
                    rows = rows.filter(pk=key)
                if epoch is None:
                    rows = rows.filter(redacted_at__isnull=True)
                return update_row(self.using, agent, rows, row, uploads)

        if not write(self.using, update, what=what):
            if (
                epoch is None
                and conversation(self.using, agent).filter(message_id=message_id).exists()
            ):
                raise StaleSessionError(
                    f"{what}: the message was redacted; read it again, and pass the redaction epoch"
                )
            raise SessionNotFoundError(f"{what}: the message does not exist")
        on_written(self.using, agent.session, "update")

    aupdate = twin(update)

    def pop(self, agent: AgentRecord) -> PositionedPayload | None:
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
        return pop_message(self.using, agent)

    apop = twin(pop)

    def redact(
        self,
        agent: AgentRecord,
        message_id: int,
        redacted: Any,
        *,
        key: UUID | None = None,
        actor: Any = None,
        reason: str = "",
    ) -> int:
        """Replace a message with its redacted version, irrecoverably.

        Its copies on other branches and its variants in snapshots are replaced too. On SQLite the
        free pages and the write-ahead log are overwritten. Under legal hold a copy of the original
        is kept until the release: see ``HeldCopy``.

        Args:
            agent: The agent; its ``branch`` selects the branch.
            message_id: Its position.
            redacted: The redacted payload.
            key: Redact only if the row at this position has this primary key.
            actor: Who redacts, for the audit trail: a user, or a program's name; by default the
                actor of the run context, or ``"guardrail"``.
            reason: The reason, for the audit trail.

        Returns:
            The session's new redaction epoch.

        Raises:
            SessionNotFoundError: There is no message at this position.
            PayloadError: The redacted version is not JSON or exceeds a limit.
        """
        if actor is None:
            actor = current_run().actor or "guardrail"
        else:
            audit.refuse_username(actor, using=self.using)
        return redact_at(
            self.using, agent, message_id, redacted, key=key, actor=actor, reason=reason
        )

    aredact = twin(redact)


def _locked_epoch(using: str, agent: AgentRecord) -> int | None:
    sessions = Session.objects.using(using).filter(pk=agent.session)
    return sessions.select_for_update().values_list("redaction_epoch", flat=True).first()
