"""Write content that exists already, for services. The store's own verbs write new content."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import F
from django.utils import timezone

from django_agent_sessions.db.db_errors import RetryError
from django_agent_sessions.db.sqlite_secure_delete import secure_delete
from django_agent_sessions.db.write_hooks import on_written
from django_agent_sessions.models import (
    AuditEvent,
    Label,
    MessageFeedback,
    Note,
    Session,
    SessionAgent,
    SessionMessage,
    SessionMultiAgent,
    SessionRelated,
    Snapshot,
    StoredObject,
)
from django_agent_sessions.models.content_field import holder_of, sealed_columns, update_one
from django_agent_sessions.sql.message_writes import redact_rows
from django_agent_sessions.sql.statement_sizes import check_statement_size, check_values_size

from ._content_rows import Copy, walk
from ._encrypted_summaries import redacted_summaries
from ._object_bytes import write_bytes
from ._redacted_originals import record_originals
from ._rows import MessageRow, sealed_payload


def replace(using: str, copy: Copy, new: Mapping[str, Any], *, change: int) -> None:
    """Write new values of a row's content columns, in a transaction that has locked the session.

    ``change`` is the session's next change number.

    Raises ``RetryError`` if the row was deleted or has another revision.
    """
    if isinstance(copy.row, StoredObject):
        _replace_bytes(using, copy.row, new["data"])
        return
    check_values_size(using, *new.values())
    columns = dict(sealed_columns(type(copy.row), copy.key, new, holder_of(copy.row)))
    if isinstance(copy.row, Session | SessionRelated):
        columns["updated_at"] = timezone.now()
    if isinstance(copy.row, Session):
        columns["header_change"] = change
    rows = type(copy.row)._base_manager.using(using).filter(pk=copy.key)
    if isinstance(copy.row, Snapshot):
        rows = rows.filter(revision=copy.row.revision, updated_at=copy.row.updated_at)
    if not rows.update(**columns):
        raise RetryError
    if isinstance(copy.row, MessageFeedback):
        set_feedback_change(using, copy.row.session_id, change)


def set_feedback_change(using: str, session: UUID, change: int) -> None:
    """Note with which change of a session its feedback changed, for streams of events."""
    Session.objects.using(using).filter(pk=session).update(feedback_change=change)


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


def clear_copied_content(using: str, session: Session) -> bool:
    """Empty what a fork has of its source besides the messages, with the session locked.

    Its title, metadata and states become empty; its snapshots, stored objects, notes and labels are
    deleted. Returns False, and changes nothing, if there is none of them.
    """
    if not _has_copied_content(using, session):
        return False
    with secure_delete(using):
        Session.objects.using(using).filter(pk=session.pk).update(title="", metadata={})
        _clear_states(SessionAgent, _EMPTY_STATES, using=using, session=session.pk)
        _clear_states(SessionMultiAgent, {"state": {}}, using=using, session=session.pk)
        for model in _DELETED:
            model._default_manager.using(using).filter(session=session.pk).delete()
    increment_redaction_epoch(using, session)
    return True


def _has_copied_content(using: str, session: Session) -> bool:
    managers = (model._default_manager.using(using) for model in _DELETED)
    states = walk(using, session, Session, SessionAgent, SessionMultiAgent)
    return any(rows.filter(session=session.pk).exists() for rows in managers) or any(
        value for copy in states for name, value in copy.values.items() if name != _ORIGIN
    )


def clear_derived_titles(using: str, sessions: Collection[UUID]) -> None:
    """Empty the titles that were made from messages, of redacted sessions that are locked."""
    rows = Session.objects.using(using).filter(pk__in=sessions, title_derived=True)
    with secure_delete(using):
        rows.update(title="", title_derived=False)


_DELETED: tuple[type[Any], ...] = (Snapshot, StoredObject, Note, Label)
_ORIGIN = "origin"
"""The column that names the source, which a fork keeps."""

_EMPTY_STATES: Mapping[str, Any] = {
    "state": {},
    "conversation_manager_state": {},
    "internal_state": {},
    "window": None,
}


def _clear_states(model: Any, empty: Mapping[str, Any], *, using: str, session: UUID) -> None:
    rows = model._base_manager.using(using).filter(session=session)
    for key in list(rows.values_list("pk", flat=True)):
        rows.filter(pk=key).update(**sealed_columns(model, key, empty, session))


def replace_references(using: str, snapshot: UUID, messages: list[Any], length: int) -> None:
    """Write the references of a snapshot to messages, after these got other positions."""
    rows = Snapshot.objects.using(using).filter(pk=snapshot)
    columns = {"length": length, "revision": F("revision") + 1}
    update_one(rows, {"messages": messages}, **columns)


def replace_window(using: str, agent: UUID, window: Any) -> None:
    """Write an agent's window, after the messages that it refers to got other positions."""
    rows = SessionAgent.objects.using(using).filter(pk=agent)
    update_one(rows, {"window": window})


def replace_derived(using: str, message: UUID, columns: Mapping[str, Any]) -> None:
    """Write the columns that are read from a message's payload."""
    SessionMessage.objects.using(using).filter(pk=message).update(**columns)


def increment_redaction_epoch(
    using: str, session: Session, now: datetime | None = None, *, redacted: bool = True
) -> int:
    """Increment the session's redaction epoch, so that writers with earlier reads are refused.

    A redaction empties a title that was made from messages.
    """
    epoch = session.redaction_epoch + 1
    empties_title = redacted and session.title_derived
    if empties_title:
        clear_derived_titles(using, [session.pk])
    Session.objects.using(using).filter(pk=session.pk).update(
        redaction_epoch=epoch,
        change=F("change") + 1,
        redaction_change=session.change + 1 if redacted else F("redaction_change"),
        redactions=F("redactions") + int(redacted),
        header_change=session.change + 1 if empties_title else F("header_change"),
        updated_at=now or timezone.now(),
    )
    if redacted:
        on_written(using, session.pk, "redact")
    return epoch


def _replace_bytes(using: str, row: StoredObject, data: bytes) -> None:
    objects = StoredObject.objects.using(using).filter(pk=row.pk, revision=row.revision)
    columns = {"size": len(data), "revision": F("revision") + 1, "updated_at": timezone.now()}
    if not objects.update(**columns):
        raise RetryError
    write_bytes(using, row.pk, data)
