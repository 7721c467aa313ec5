"""Create a session together with what is written to it first."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, TypeVar
from uuid import UUID

from django.db import Error, connections

from django_agent_sessions.db.db_errors import close_quietly, is_conflict, is_lost_connection
from django_agent_sessions.exceptions import SessionConflictError
from django_agent_sessions.values.ids import new_id
from django_agent_sessions.values.records import AgentRecord, SessionRecord

from ._base import retry_reads, tracked_atomic, was_rolled_back
from ._context import StoreContext
from ._queries import session_rows

R = TypeVar("R")


class _InsertSession(Protocol):
    def __call__(self, *, key: UUID, savepoint: bool) -> SessionRecord | None: ...


class _InsertAgent(Protocol):
    def __call__(
        self, using: str, session: SessionRecord, *, savepoint: bool
    ) -> AgentRecord | None: ...


def start_session(
    context: StoreContext,
    insert_session: _InsertSession,
    insert_agent: _InsertAgent,
    write: Callable[[SessionRecord, AgentRecord], R],
) -> R:
    """Insert a session and an agent, and write to them, in one transaction.

    Raises ``SessionConflictError`` if nothing was written and the session has to be opened instead.
    """
    using, key = context.using, new_id()
    conflict = SessionConflictError("the session was not created; open it")
    if not context.creates:
        raise conflict
    joined = connections[using].in_atomic_block
    with suppress(_UndoneError):
        try:
            with tracked_atomic(using):
                session = insert_session(key=key, savepoint=False)
                if session is None:
                    raise conflict
                agent = insert_agent(using, session, savepoint=False)
                if agent is None:
                    raise conflict
                result = write(session, agent)
        except Error as error:
            if joined or not (is_conflict(error) or is_lost_connection(error)):
                raise
            if is_lost_connection(error):
                close_quietly(connections[using])
            # Only the database knows whether a commit that failed has happened.
            if was_rolled_back(error) or not _exists(using, key):
                raise _UndoneError from None
        return result
    raise conflict


class _UndoneError(Exception):
    """A transaction has no effect, and may be tried again."""


@retry_reads
def _exists(using: str, session: UUID) -> bool:
    return session_rows(using).filter(pk=session).exists()
