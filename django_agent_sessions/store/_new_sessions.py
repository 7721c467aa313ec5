"""Create sessions, and return them as records."""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from django.utils import timezone

from django_agent_sessions import signals
from django_agent_sessions.content import codec
from django_agent_sessions.db.retries import insert_unique
from django_agent_sessions.db.write_hooks import send_after_commit
from django_agent_sessions.exceptions import DestroyedKeyError
from django_agent_sessions.models import Session
from django_agent_sessions.values.ids import new_id, validate_id
from django_agent_sessions.values.records import SessionRecord, Usage

from ._context import StoreContext
from ._session_columns import check_is_mapping, prepare_metadata, prepare_title

logger = logging.getLogger("django_agent_sessions")

_COLUMNS = [field.name for field in dataclasses.fields(SessionRecord) if field.name != "usage"]


def session_record(row: Any) -> SessionRecord:
    """Return the record of a session, or of the columns that `sql.lookup` reads."""
    return SessionRecord(**_record_values(row, _COLUMNS))


def record_without_lost(row: Session) -> SessionRecord:
    """Return the record of a session whose data key may have been destroyed.

    If it was, the title or the metadata raises ``DestroyedKeyError`` when it is used.
    """
    try:
        return session_record(row)
    except DestroyedKeyError as error:
        # What was not loaded is lost; a title that was set since is known.
        lost = row.get_deferred_fields()
        known = _record_values(row, [name for name in _COLUMNS if name not in lost])
        return _IncompleteRecord(error, known)


class _IncompleteRecord(SessionRecord):
    """A record of a session whose title or metadata is lost with its data key."""

    __slots__ = ("_error",)

    def __init__(self, error: DestroyedKeyError, known: Mapping[str, Any]) -> None:
        for name, value in {**known, "_error": error}.items():
            object.__setattr__(self, name, value)  # A record is frozen.

    def __getattr__(self, name: str) -> Any:
        # Called for a slot that is empty.
        if name in _COLUMNS:
            raise self._error
        raise AttributeError(name)


def _record_values(row: Any, columns: Iterable[str]) -> dict[str, Any]:
    codec.remember(row.id, row.owner_id)
    usage = Usage(
        row.message_count,
        row.input_tokens,
        row.output_tokens,
        row.cost,
        row.error_count,
        row.cache_read_tokens,
        row.cache_write_tokens,
    )
    return {"usage": usage, **{name: getattr(row, name) for name in columns}}


def insert_session(
    context: StoreContext,
    session_id: str | UUID,
    title: str,
    metadata: Mapping[str, Any] | None,
    **columns: Any,
) -> SessionRecord | None:
    """Insert a session; return None if its id is taken. See :func:`new_session`."""
    row = new_session(context, session_id, title, metadata, **columns)
    what = f"creating session {session_id!r}"
    if not insert_unique(context.using, row, what=what):
        return None
    tell_created(context.using, row, "create")
    return session_record(row)


def tell_created(
    using: str, session: Session | SessionRecord, kind: Literal["create", "fork"]
) -> None:
    """Send the signal of a created session."""
    send_after_commit(
        signals.session_created,
        using,
        session=session.id,
        namespace=session.namespace,
        scope=session.scope,
        session_id=session.session_id,
        kind=kind,
    )


def log_unused_metadata(
    context: StoreContext, session: SessionRecord, metadata: Mapping[str, Any] | None
) -> None:
    """Log that metadata is not stored, because it is for a new session and this one exists.

    It is not merged: that would write back what was redacted or changed since.
    """
    if metadata is not None:
        check_is_mapping(metadata)
    # After a redaction the stored values differ, but were used.
    if not metadata or session.redaction_epoch or metadata.items() <= session.metadata.items():
        return
    # As it would be stored: masked, and with lists instead of tuples.
    stored = json.loads(json.dumps(prepare_metadata(metadata, context.using)))
    if not stored.items() <= session.metadata.items():
        logger.warning(
            "session %s exists, so the metadata for a new session was not stored: change it "
            "with SessionStore.sessions.update",
            session.id,
        )


def new_session(
    context: StoreContext,
    session_id: str | UUID,
    title: str,
    metadata: Mapping[str, Any] | None,
    *,
    session_type: str = "AGENT",
    external_id: str | None = None,
    key: UUID | None = None,
    created_at: datetime | None = None,
    updated_at: datetime | None = None,
) -> Session:
    """Return the row of a session that is to be created."""
    now = created_at or timezone.now()
    if external_id is not None:
        validate_id(external_id, "external_id")
    key = key or new_id()
    codec.remember(key, context.reach.owner_id)
    return Session(  # type: ignore[misc] # the external id is the one id that may be missing
        id=key,
        external_id=external_id,
        **context.key(session_id)._asdict(),
        session_type=session_type,
        owner_id=context.reach.owner_id,
        title=prepare_title(title),
        metadata=prepare_metadata({} if metadata is None else metadata, context.using),
        created_at=now,
        updated_at=updated_at or now,
        last_activity_at=now,
    )
