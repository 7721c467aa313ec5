"""Write a redaction: what a service has planned, or a guardrail's new version of a message."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import F, Model, Q
from django.utils import timezone

from django_agent_sessions import audit
from django_agent_sessions.blobs import Uploads, update_references
from django_agent_sessions.db.db_errors import RetryError
from django_agent_sessions.db.sqlite_secure_delete import secure_delete
from django_agent_sessions.exceptions import SessionNotFoundError
from django_agent_sessions.models import (
    MAIN_BRANCH,
    AuditEvent,
    Branch,
    MessageFeedback,
    Session,
    SessionMessage,
    SessionRelated,
    Snapshot,
    StoredObject,
)
from django_agent_sessions.models.content_field import holder_of, sealed_columns
from django_agent_sessions.sql.message_writes import redact_rows
from django_agent_sessions.sql.statement_sizes import check_statement_size, check_values_size
from django_agent_sessions.values.records import AgentRecord

from ._change_numbers import increment_redaction_epoch, set_feedback_change
from ._encrypted_summaries import redacted_summaries
from ._held_copies import keep, keep_messages
from ._inline_messages import MessageRef, without_inline_messages
from ._object_bytes import write_bytes
from ._queries import conversation, session_rows
from ._redacted_originals import record_originals
from ._rows import MessageRow, sealed_payload, uploads_of
from .locking import lock_session, with_lock


def write_redaction(
    using: str,
    session: Session,
    event: AuditEvent,
    uploads: Uploads,
    *,
    messages: Sequence[tuple[UUID, int, MessageRow]],
    rows: Iterable[tuple[Model, Mapping[str, Any]]],
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
    for row, values in rows:
        keep(using, session, type(row)._base_manager.using(using).filter(pk=row.pk), values)
        _replace(using, row, values, change=number)
    replace_messages(using, messages, event, change=number)
    update_references(using, session.pk, keys)
    return increment_redaction_epoch(using, session, now) if is_seen else session.redaction_epoch


def _replace(using: str, row: Model, new: Mapping[str, Any], *, change: int) -> None:
    """Write new values of a row's content columns, in a transaction that has locked the session.

    ``change`` is the session's next change number.

    Raises ``RetryError`` if the row was deleted or has another revision.
    """
    if isinstance(row, StoredObject):
        _replace_bytes(using, row, new["data"])
        return
    check_values_size(using, *new.values())
    columns = dict(sealed_columns(type(row), row.pk, new, holder_of(row)))
    if isinstance(row, Session | SessionRelated):
        columns["updated_at"] = timezone.now()
    if isinstance(row, Session):
        columns["header_change"] = change
    rows = type(row)._base_manager.using(using).filter(pk=row.pk)
    if isinstance(row, Snapshot):
        rows = rows.filter(revision=row.revision, updated_at=row.updated_at)
    if not rows.update(**columns):
        raise RetryError
    if isinstance(row, MessageFeedback):
        set_feedback_change(using, row.session_id, change)


def _replace_bytes(using: str, row: StoredObject, data: bytes) -> None:
    objects = StoredObject.objects.using(using).filter(pk=row.pk, revision=row.revision)
    columns = {"size": len(data), "revision": F("revision") + 1, "updated_at": timezone.now()}
    if not objects.update(**columns):
        raise RetryError
    write_bytes(using, row.pk, data)


def replace_messages(
    using: str,
    messages: Iterable[tuple[UUID, int, MessageRow]],
    event: AuditEvent,
    *,
    change: int,
) -> None:
    """Write the redacted versions of messages, given with their revisions.

    ``change`` is the session's next change number. Raises ``RetryError`` if a message was deleted
    or has another revision.
    """
    rows = []
    messages = list(messages)
    messages += redacted_summaries(using, event.session, [key for key, _, _ in messages])
    if event.session is not None:
        record_originals(using, event.session, [key for key, _, _ in messages])
    for key, revision, row in messages:
        check_statement_size(using, row.texts)
        assert event.session is not None  # noqa: S101 - messages are redacted in their session
        payload = sealed_payload(key, row.texts[0], event.session)
        columns = {"message": payload, "redacted_at": row.created_at, **row.neutral_columns()}
        rows.append((key, revision, columns))
    if redact_rows(using, rows, event.pk, change=change) != len(rows):
        raise RetryError


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
