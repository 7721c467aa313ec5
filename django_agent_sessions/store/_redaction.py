"""Replace a message with its redacted version."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from django.db.models import Q

from django_agent_sessions import audit
from django_agent_sessions.blobs import Uploads, update_references
from django_agent_sessions.db.sqlite_secure_delete import secure_delete
from django_agent_sessions.exceptions import SessionNotFoundError
from django_agent_sessions.models import MAIN_BRANCH, AuditEvent, Branch, Session, SessionMessage
from django_agent_sessions.values.records import AgentRecord

from ._content_writes import increment_redaction_epoch, is_original_kept, redacted_columns
from ._message_reading import MessageReader
from ._rows import MessageRow
from ._snapshot_variants import MessageRef, replace_variants
from ._statement_sizes import check_statement_size
from .locking import lock_session, with_lock


class RedactionStore(MessageReader):
    def redact_message(
        self,
        agent: AgentRecord,
        message_id: int,
        redacted: Any,
        *,
        key: UUID | None = None,
        actor: Any = "guardrail",
        reason: str = "",
    ) -> int:
        """Replace a message with its redacted version, irrecoverably.

        Its copies on other branches and its variants in snapshots are replaced too. On SQLite the
        free pages and the write-ahead log are overwritten. With ``REDACTION_KEEP_ORIGINAL`` or
        under legal hold the original is kept, but it is neither restored nor listed.

        Args:
            agent: The agent; its ``branch`` selects the branch.
            message_id: Its position.
            redacted: The redacted payload.
            key: Redact only if the row at this position has this primary key.
            actor: Who redacts, for the audit trail: a user, or a program's name.
            reason: The reason, for the audit trail.

        Returns:
            The session's new redaction epoch.

        Raises:
            SessionNotFoundError: There is no message at this position.
            PayloadError: The redacted version is not JSON or exceeds a limit.
        """
        row = MessageRow(agent.dialect, redacted)
        check_statement_size(self.using, row.texts * 2)
        what = f"redacting message {message_id} of agent {agent.agent_id!r}"
        uploads = Uploads(self.using, agent.session, [row])

        missing = SessionNotFoundError(f"{what}: the message does not exist")

        def lock() -> Session:
            if (session := lock_session(self.using, agent.session)) is None:
                raise missing
            return session

        @contextmanager
        def attempt() -> Iterator[None]:
            with uploads.attempt(), secure_delete(self.using):
                yield

        def redact(session: Session) -> int:
            candidates = self._messages(agent).filter(message_id=message_id)
            if key is not None:
                candidates = candidates.filter(pk=key)
            first = candidates.values_list("pk", "source").first()
            if first is None:
                raise missing
            target, source = first
            references = self._copies(agent, message_id, source or target)
            event = audit.record(
                AuditEvent.Action.REDACTED,
                session=session.pk,
                target=target,
                actor=actor,
                reason=reason,
                details={"messages": len(references)},
                using=self.using,
            )
            uploads.store()
            columns = redacted_columns(row, event, keep=is_original_kept(session))
            rows = SessionMessage.objects.using(self.using)
            rows.filter(pk__in=references).update(**columns)
            update_references(self.using, agent.session, references.keys())
            if not session.legal_hold:
                replace_variants(self.using, agent.session, references.values())
            return increment_redaction_epoch(self.using, session, row.created_at)

        return with_lock(self.using, lock, redact, what=what, around=attempt)

    async def aredact_message(
        self,
        agent: AgentRecord,
        message_id: int,
        redacted: Any,
        *,
        key: UUID | None = None,
        actor: Any = "guardrail",
        reason: str = "",
    ) -> int:
        """Async twin of :meth:`redact_message`."""
        return await self._arun(
            self.redact_message, agent, message_id, redacted, key=key, actor=actor, reason=reason
        )

    def _copies(self, agent: AgentRecord, position: int, first: UUID) -> dict[UUID, MessageRef]:
        """Find the copies of a message on all branches of the agent."""
        branches = Branch.objects.using(self.using).filter(agent=agent.id)
        numbers = {MAIN_BRANCH, agent.branch, *branches.values_list("number", flat=True)}
        # A copy has the same position on every branch.
        rows = SessionMessage.objects.using(self.using).filter(
            agent=agent.id, branch__in=numbers, message_id=position
        )
        rows = rows.filter(Q(pk=first) | Q(source=first)).order_by()
        values = rows.values_list("pk", "branch", "message_id")
        return {key: MessageRef(agent.id, branch, position) for key, branch, position in values}
