"""Redaction at its lowest level: what is written where a message is redacted, and for whom."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import F, Q, Value
from django.db.models.functions import Coalesce
from django.utils import timezone

from django_agent_sessions import audit, conf, notifying
from django_agent_sessions.blobs import Uploads, note_uses
from django_agent_sessions.exceptions import SessionNotFoundError
from django_agent_sessions.leftovers import overwrite_leftovers
from django_agent_sessions.models import (
    MAIN_BRANCH,
    AuditEvent,
    Branch,
    Session,
    SessionMessage,
)
from django_agent_sessions.records import AgentRecord

from .alone import alone, lock_session
from .overrides import Spot, drop_forms
from .reading import MessageReader
from .rows import Row
from .statement_sizes import check_statement_size


class RedactionStore(MessageReader):
    """The part of the store that redacts single messages, as an SDK's guardrails do."""

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
        """Overwrites a message by its redacted version; the original is gone for good.

        So are its copies on other branches, and what snapshots have of it in another form. On
        SQLite the free pages and the write-ahead log are overwritten too. The original stays where
        ``REDACTION_KEEP_ORIGINAL`` or a legal hold says so, but nobody restores or lists it.

        Args:
            agent: The agent whose conversation it is.
            message_id: Its position.
            redacted: What to keep in its place.
            key: Redact only if the row at this position has this primary key.
            actor: Who redacts, for the audit trail: a user, or text for a program.
            reason: Why, for the audit trail.

        Returns:
            The session's new redaction epoch.

        Raises:
            SessionNotFoundError: There is no message at this position.
            PayloadError: The redacted version is not JSON or over a limit.
        """
        row = Row(agent.dialect, redacted)
        check_statement_size(self.using, row.texts * 2)
        what = f"redacting message {message_id} of agent {agent.agent_id!r}"
        uploads = Uploads(self.using, agent.session, [row])

        missing = SessionNotFoundError(f"{what}: there is no such message")

        def lock() -> Session:
            if (session := lock_session(self.using, agent.session)) is None:
                raise missing
            return session

        @contextmanager
        def around() -> Iterator[None]:
            with uploads.attempt(), overwrite_leftovers(self.using):
                yield

        def redact(session: Session) -> int:
            found = self._messages(agent).filter(message_id=message_id)
            if key is not None:
                found = found.filter(pk=key)
            first = found.values_list("pk", "source").first()
            if first is None:
                raise missing
            target, source = first
            spots = self._copies(agent, message_id, source or target)
            event = record_redaction(
                session,
                target=target,
                actor=actor,
                reason=reason,
                details={"messages": len(spots)},
                using=self.using,
            )
            uploads.store()
            columns = redacted_columns(row, event, keep=keeps_original(session))
            rows = SessionMessage.objects.using(self.using)
            rows.filter(pk__in=spots).update(**columns)
            note_uses(self.using, agent.session, spots.keys())
            if not session.legal_hold:
                drop_forms(self.using, agent.session, spots.values())
            return move_epoch(self.using, session, row.created_at)

        return alone(self.using, lock, redact, what=what, around=around)

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
        """Does what :meth:`redact_message` does."""
        return await self._arun(
            self.redact_message, agent, message_id, redacted, key=key, actor=actor, reason=reason
        )

    def _copies(self, agent: AgentRecord, position: int, first: UUID) -> dict[UUID, Spot]:
        """Finds all of an agent's messages that are the same one on some branch."""
        branches = Branch.objects.using(self.using).filter(agent=agent.id)
        numbers = {MAIN_BRANCH, agent.branch, *branches.values_list("number", flat=True)}
        # On every branch a copy is where the first one is.
        rows = SessionMessage.objects.using(self.using).filter(
            agent=agent.id, branch__in=numbers, message_id=position
        )
        rows = rows.filter(Q(pk=first) | Q(source=first)).order_by()
        found = rows.values_list("pk", "branch", "message_id")
        return {key: Spot(agent.id, branch, position) for key, branch, position in found}


def keeps_original(session: Session) -> bool:
    """Tells whether the originals of redacted messages stay, hidden."""
    return session.legal_hold or conf.get_settings().REDACTION_KEEP_ORIGINAL


def redacted_columns(row: Row, event: AuditEvent, *, keep: bool) -> dict[str, Any]:
    """Makes the columns of a redacted message."""
    columns = {
        "redact_message": row.stored,
        "redacted_at": row.created_at,
        "redaction": event.pk,
        "revision": F("revision") + 1,
        **row.neutral_columns(),
    }
    if not keep:
        return {"message": row.stored, **columns}
    # The time that an original is kept for begins with the first redaction.
    return {**columns, "redacted_at": Coalesce("redacted_at", Value(row.created_at))}


def record_redaction(
    session: Session,
    *,
    target: UUID | None,
    actor: Any,
    reason: str,
    details: Mapping[str, Any],
    using: str,
    secrets: Collection[str] = (),
) -> AuditEvent:
    """Records a redaction, in its transaction."""
    return audit.record(
        AuditEvent.Action.REDACTED,
        session=session.pk,
        target=target,
        actor=actor,
        reason=reason,
        secrets=secrets,
        details=details,
        using=using,
    )


def move_epoch(
    using: str, session: Session, now: datetime | None = None, *, redacted: bool = True
) -> int:
    """Tells every writer that what it read may be out of date."""
    epoch = session.redaction_epoch + 1
    Session.objects.using(using).filter(pk=session.pk).update(
        redaction_epoch=epoch,
        redactions=F("redactions") + int(redacted),
        updated_at=now or timezone.now(),
    )
    notifying.written(using, session.pk)
    return epoch
