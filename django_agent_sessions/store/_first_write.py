"""Create a session, alone or together with what is written to it first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, Protocol, TypeVar
from uuid import UUID

from django.db import Error, connections
from django.utils import timezone

from django_agent_sessions.db.db_errors import close_quietly, is_conflict, is_lost_connection
from django_agent_sessions.exceptions import SessionConflictError
from django_agent_sessions.models import Session
from django_agent_sessions.values.ids import new_id, validate_id
from django_agent_sessions.values.records import AgentRecord, SessionRecord, Usage

from ._agents import insert_agent
from ._base import (
    in_caller_transaction,
    insert_unique,
    retry_reads,
    tracked_atomic,
    translate,
    was_rolled_back,
)
from ._context import StoreContext
from ._mask_on_write import prepare_metadata, prepare_title
from ._queries import session_rows

R = TypeVar("R")


def session_record(row: Any) -> SessionRecord:
    """Return the record of a session, or of the columns that `sql.lookup` reads."""
    return SessionRecord(
        id=row.id,
        session_id=row.session_id,
        namespace=row.namespace,
        scope=row.scope,
        session_type=row.session_type,
        owner_id=row.owner_id,
        external_id=row.external_id,
        title=row.title,
        metadata=row.metadata,
        redaction_epoch=row.redaction_epoch,
        usage=Usage(row.message_count, row.input_tokens, row.output_tokens),
        legal_hold=row.legal_hold,
        created_at=row.created_at,
        updated_at=row.updated_at,
        last_activity_at=row.last_activity_at,
        archived_at=row.archived_at,
        expires_at=row.expires_at,
    )


def insert_session(
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
    savepoint: bool = True,
) -> SessionRecord | None:
    now = created_at or timezone.now()
    if external_id is not None:
        validate_id(external_id, "external_id")
    row = Session(  # type: ignore[misc] # the external id is the one id that may be missing
        id=key or new_id(),
        external_id=external_id,
        **context.key(session_id)._asdict(),
        session_type=session_type,
        owner_id=context.reach.owner_id,
        title=prepare_title(title),
        metadata=prepare_metadata(metadata or {}, context.using),
        created_at=now,
        updated_at=updated_at or now,
        last_activity_at=now,
    )

    inserted = insert_unique(
        context.using, row, what=f"creating session {session_id!r}", savepoint=savepoint
    )
    return session_record(row) if inserted else None


class _Insert(Protocol):
    def __call__(self, *, key: UUID, savepoint: bool) -> SessionRecord | None: ...


def start_session(
    context: StoreContext,
    insert: _Insert,
    agent_id: str,
    dialect: str,
    write: Callable[[SessionRecord, AgentRecord], R],
) -> R:
    """Insert a session and an agent, and write to them, in one transaction.

    Raises ``SessionConflictError`` if nothing was written and the session has to be opened instead.
    """
    using, key = context.using, new_id()
    conflict = SessionConflictError("the session was not created; open it")
    connection = connections[using]
    joined = in_caller_transaction(connection)
    # Without autocommit, SQLite would commit what is in a savepoint at its end.
    if not context.creates or (joined and not connection.in_atomic_block):
        raise conflict
    failure = None
    with suppress(_UndoneError):
        try:
            with tracked_atomic(using):
                session = insert(key=key, savepoint=False)
                if session is None:
                    raise conflict
                agent = insert_agent(using, session, agent_id, dialect, savepoint=False)
                if agent is None:
                    raise conflict
                result = write(session, agent)
            return result
        except Error as error:
            failure = translate(error, f"creating agent {agent_id!r} of a session", using)
            if failure is None:
                if joined or not (is_conflict(error) or is_lost_connection(error)):
                    raise
                if is_lost_connection(error):
                    close_quietly(connection)
                # Only the database knows whether a commit that failed has happened.
                if was_rolled_back(error) or not _exists(using, key):
                    raise _UndoneError from None
                return result
    # Outside the except block: the database's error, its context, may contain content.
    raise conflict if failure is None else failure


class _UndoneError(Exception):
    """A transaction has no effect, and may be tried again."""


@retry_reads
def _exists(using: str, session: UUID) -> bool:
    return session_rows(using).filter(pk=session).exists()
