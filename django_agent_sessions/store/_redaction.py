"""Write redacted messages, their audit events and the session's redaction epoch."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import F, Q, Value
from django.db.models.functions import Coalesce
from django.utils import timezone

from django_agent_sessions import audit, conf
from django_agent_sessions.blobs import Uploads, update_references
from django_agent_sessions.db.sqlite_secure_delete import secure_delete
from django_agent_sessions.db.write_hooks import on_written
from django_agent_sessions.exceptions import SessionNotFoundError
from django_agent_sessions.models import MAIN_BRANCH, AuditEvent, Branch, Session, SessionMessage
from django_agent_sessions.values.records import AgentRecord

from ._queries import conversation
from ._rows import MessageRow
from ._snapshot_variants import MessageRef, replace_variants
from ._statement_sizes import check_statement_size
from .locking import lock_session, with_lock


def redact_at(
    using: str,
    agent: AgentRecord,
    message_id: int,
    redacted: Any,
    *,
    key: UUID | None,
    actor: Any,
    reason: str,
) -> int:
    """Replace a message with its redacted version. See :meth:`Messages.redact`."""
    row = MessageRow(agent.dialect, redacted)
    check_statement_size(using, row.texts * 2)
    what = f"redacting message {message_id} of agent {agent.agent_id!r}"
    uploads = Uploads(using, agent.session, [row])

    missing = SessionNotFoundError(f"{what}: the message does not exist")

    def lock() -> Session:
        if (session := lock_session(using, agent.session)) is None:
            raise missing
        return session

    @contextmanager
    def attempt() -> Iterator[None]:
        with uploads.attempt(), secure_delete(using):
            yield

    def redact(session: Session) -> int:
        candidates = conversation(using, agent).filter(message_id=message_id)
        if key is not None:
            candidates = candidates.filter(pk=key)
        first = candidates.values_list("pk", "source").first()
        if first is None:
            raise missing
        target, source = first
        references = _copies(using, agent, message_id, source or target)
        event = record_redaction(
            session,
            target=target,
            actor=actor,
            reason=reason,
            details={"messages": len(references)},
            using=using,
        )
        uploads.store()
        keep = is_original_kept(session)
        columns = redacted_columns(row, event, change=session.change + 1, keep=keep)
        rows = SessionMessage.objects.using(using)
        rows.filter(pk__in=references).update(**columns)
        update_references(using, agent.session, references.keys())
        if not session.legal_hold:
            replace_variants(using, agent.session, references.values())
        return increment_redaction_epoch(using, session, row.created_at)

    return with_lock(using, lock, redact, what=what, around=attempt)


def is_original_kept(session: Session) -> bool:
    """Return whether the originals of redacted messages are kept."""
    return session.legal_hold or conf.get_settings().REDACTION_KEEP_ORIGINAL


def redacted_columns(
    row: MessageRow, event: AuditEvent, *, change: int, keep: bool
) -> dict[str, Any]:
    """Return the updated columns of a redacted message; ``change`` is the session's next."""
    columns = {
        "redact_message": row.stored,
        "redacted_at": row.created_at,
        "redaction": event.pk,
        "redaction_change": change,
        "revision": F("revision") + 1,
        **row.neutral_columns(),
    }
    if not keep:
        return {"message": row.stored, **columns}
    # The retention time of the original begins with the first redaction.
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
    """Write the audit event of a redaction, in its transaction."""
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


def increment_redaction_epoch(
    using: str, session: Session, now: datetime | None = None, *, redacted: bool = True
) -> int:
    """Increment the session's redaction epoch, so that writers with earlier reads are refused."""
    epoch = session.redaction_epoch + 1
    Session.objects.using(using).filter(pk=session.pk).update(
        redaction_epoch=epoch,
        change=F("change") + 1,
        redaction_change=session.change + 1 if redacted else F("redaction_change"),
        redactions=F("redactions") + int(redacted),
        updated_at=now or timezone.now(),
    )
    if redacted:
        on_written(using, session.pk, "redact")
    return epoch


def _copies(using: str, agent: AgentRecord, position: int, first: UUID) -> dict[UUID, MessageRef]:
    """Find the copies of a message on all branches of the agent."""
    branches = Branch.objects.using(using).filter(agent=agent.id)
    numbers = {MAIN_BRANCH, agent.branch, *branches.values_list("number", flat=True)}
    # A copy has the same position on every branch.
    rows = SessionMessage.objects.using(using).filter(
        agent=agent.id, branch__in=numbers, message_id=position
    )
    rows = rows.filter(Q(pk=first) | Q(source=first)).order_by()
    values = rows.values_list("pk", "branch", "message_id")
    return {key: MessageRef(agent.id, branch, position) for key, branch, position in values}
