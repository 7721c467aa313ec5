"""Write a redaction: what a service has planned, or a guardrail's new version of a message."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Q

from django_agent_sessions import audit
from django_agent_sessions.blobs import Uploads, update_references
from django_agent_sessions.db.sqlite_secure_delete import secure_delete
from django_agent_sessions.exceptions import SessionNotFoundError
from django_agent_sessions.models import MAIN_BRANCH, AuditEvent, Branch, Session, SessionMessage
from django_agent_sessions.sql.statement_sizes import check_statement_size
from django_agent_sessions.values.records import AgentRecord

from ._content_rows import Copy
from ._content_writes import increment_redaction_epoch, replace, replace_messages
from ._held_copies import keep, keep_messages
from ._inline_messages import MessageRef, without_inline_messages
from ._queries import conversation, session_rows
from ._rows import MessageRow, uploads_of
from .locking import lock_session, with_lock


def write_redaction(
    using: str,
    session: Session,
    event: AuditEvent,
    uploads: Uploads,
    *,
    messages: Sequence[tuple[UUID, int, MessageRow]],
    rows: Iterable[tuple[Copy, Mapping[str, Any]]],
    now: datetime | None = None,
    is_seen: bool = True,
) -> int:
    """Write the redacted content of a locked session, after its audit event; return its epoch.

    ``messages`` are the redacted versions of messages, given with their revisions, and ``rows`` the
    new values of other rows. Under legal hold, copies of what they had are kept. Agents read the
    session again, unless the change is not ``is_seen`` by them. Raises ``RetryError`` if a row was
    deleted or has another revision.
    """
    uploads.store()
    number = session.change + 1
    keys = [key for key, _, _ in messages]
    keep_messages(using, session, keys)
    if session.title_derived:
        keep(using, session, session_rows(using).filter(pk=session.pk), {"title": ""})
    for copy, values in rows:
        keep(using, session, type(copy.row)._base_manager.using(using).filter(pk=copy.key), values)
        replace(using, copy, values, change=number)
    replace_messages(using, messages, event, change=number)
    update_references(using, session.pk, keys)
    return increment_redaction_epoch(using, session, now) if is_seen else session.redaction_epoch


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
    """Replace a message and its copies with a redacted version. See :meth:`Messages.redact`."""
    row = MessageRow(agent.dialect, redacted)
    check_statement_size(using, row.texts * 2)
    what = f"redacting message {message_id} of agent {agent.agent_id!r}"
    uploads = uploads_of(using, agent.session, [row])

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
        copies = _copies(using, agent, message_id, source or target)
        event = audit.record_checked(
            AuditEvent.Action.REDACTED,
            session=session.pk,
            target=target,
            actor=actor,
            reason=reason,
            details={"messages": len(copies)},
            using=using,
        )
        return write_redaction(
            using,
            session,
            event,
            uploads,
            messages=[(copy, revision, row) for copy, revision, _ in copies],
            rows=without_inline_messages(using, session.pk, [ref for _, _, ref in copies]),
            now=row.created_at,
        )

    return with_lock(using, lock, redact, what=what, around=attempt)


def _copies(
    using: str, agent: AgentRecord, position: int, first: UUID
) -> list[tuple[UUID, int, MessageRef]]:
    """Find the copies of a message on all branches of the agent, with their revisions."""
    branches = Branch.objects.using(using).filter(agent=agent.id)
    numbers = {MAIN_BRANCH, agent.branch, *branches.values_list("number", flat=True)}
    # A copy has the same position on every branch.
    rows = SessionMessage.objects.using(using).filter(
        agent=agent.id, branch__in=numbers, message_id=position
    )
    rows = rows.filter(Q(pk=first) | Q(source=first)).order_by()
    values = rows.values_list("pk", "revision", "branch")
    return [
        (key, revision, MessageRef(agent.id, branch, position)) for key, revision, branch in values
    ]
