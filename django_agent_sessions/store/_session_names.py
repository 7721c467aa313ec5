"""Find the session that a caller names, in one way for all operations."""

from __future__ import annotations

from uuid import UUID

from django_agent_sessions.db.retries import retry_reads
from django_agent_sessions.models.session_names import (
    SessionName,
    key_in,
    key_in_text,
    known_key,
    named_by,
    the_named,
)
from django_agent_sessions.sql import lookup
from django_agent_sessions.values.records import SessionRecord

from ._context import StoreContext
from ._new_sessions import session_record


@retry_reads
def read_session(context: StoreContext, session: SessionName) -> SessionRecord | None:
    """Read a session; None if it does not exist or is not reached."""
    if isinstance(session, str) and key_in_text(session) is None:
        row = lookup.get_session(context.using, context.key(session), context.reach.key)
    else:
        rows = context.sessions().filter(named_by(session, context.namespace, context.scope))
        row = the_named(session, rows[:2])
    return None if row is None else session_record(row)


def require_session(context: StoreContext, session: SessionName) -> SessionRecord:
    """Read a session that must exist."""
    found = read_session(context, session)
    if found is None:
        raise context.not_found(session)
    return found


def given_session(context: StoreContext, session: SessionName) -> SessionRecord:
    """Return a record that is reached as it is, without a query; read a session otherwise."""
    if isinstance(session, SessionRecord) and context.includes(session):
        return session
    # Also a record of before the session got its owner.
    return require_session(context, session)


def find_key(context: StoreContext, session: SessionName) -> UUID | None:
    """Return a primary key, which the operation has to look up itself; None for an unknown text.

    A UUID that names no session is returned as it is: it may be the key of a deleted one.
    """
    if (key := known_key(session)) is not None:
        return key
    return find_in_reach(context, session) or key_in(session)


@retry_reads
def find_in_reach(context: StoreContext, session: SessionName) -> UUID | None:
    """Return the primary key of a session, of which nothing else is read; None if there is none."""
    named = named_by(session, context.namespace, context.scope)
    row = the_named(session, context.sessions().filter(named).only("pk", "owner_id")[:2])
    return None if row is None else row.pk
