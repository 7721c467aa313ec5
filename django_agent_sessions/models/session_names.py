"""What may name a session: its record, its model, its primary key or its ``session_id``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias
from uuid import UUID

from django.db.models import Q

from django_agent_sessions.db import bridge
from django_agent_sessions.exceptions import InvalidIdError, SessionNotFoundError
from django_agent_sessions.values.ids import SessionKey, validate_id
from django_agent_sessions.values.records import SessionRecord

from .deletion import ENCRYPTED, TOMBSTONE_NAMESPACE
from .querysets import key_condition
from .sessions import Session

SessionName: TypeAlias = SessionRecord | Session | UUID | str
"""A session's record, its model instance, its primary key, or its ``session_id``.

A primary key may be a UUID or its text.
"""


def key_in(session: SessionName) -> UUID | None:
    """Return the primary key in a name; None for a text, which has to be looked up.

    Raises ``InvalidIdError`` for a value of another type.
    """
    if isinstance(session, SessionRecord | Session):
        return session.id
    if isinstance(session, UUID):
        return session
    if not isinstance(session, str):
        raise InvalidIdError(
            f"a {type(session).__name__} names no session: pass its record, its model instance, "
            "its primary key or its session_id"
        )
    return None


def known_key(session: SessionName) -> UUID | None:
    """Return the primary key in a record or model; None for a name that has to be looked up.

    Raises ``InvalidIdError`` for a value of another type.
    """
    key = key_in(session)
    return None if isinstance(session, UUID) else key


def by_key(key: UUID) -> SessionName:
    """Name a session by its primary key alone: a UUID may be a ``session_id`` too."""
    return Session(pk=key)


def name_in_errors(session: SessionName) -> str:
    """Return the name for error texts: the ``session_id``, or the primary key that was passed."""
    return session.session_id if isinstance(session, SessionRecord | Session) else str(session)


def key_in_text(session: SessionName) -> UUID | None:
    """Return the primary key that a text may be."""
    try:
        return UUID(session) if isinstance(session, str) else None
    except ValueError:
        return None


def named_by(session: SessionName, namespace: str = "", scope: str = "") -> Q:
    """Return the condition for the sessions that may be meant; :func:`the_named` chooses."""
    key = key_in(session) or key_in_text(session)
    condition = Q() if key is None else Q(pk=key)
    if isinstance(session, UUID | str):
        condition |= key_condition(SessionKey(namespace, scope, validate_id(session)))
    return condition & ~Q(namespace=TOMBSTONE_NAMESPACE)


def the_named(session: SessionName, rows: Iterable[Any]) -> Any | None:
    """Return the row with a name among those of :func:`named_by`; None if there is none.

    A UUID is a primary key if a session has it. Only a text can be ambiguous.
    """
    rows = [*rows]
    if len(rows) > 1 and isinstance(session, str):
        raise InvalidIdError(
            f"{session} is the primary key of one session and the session_id of another: pass a "
            "record, or the primary key as a UUID"
        )
    key = key_in(session)
    return min(rows, key=lambda row: row.pk != key, default=None)


def read_named(session: SessionName, using: str | None = None) -> Session:
    """Return the model of a session for a service, which checks no owner.

    Its title and metadata, whose data key may have been destroyed, are read when they are used.
    Raises ``SessionNotFoundError`` if it does not exist.
    """
    if isinstance(session, Session):
        return session
    alias = bridge.database(using)
    key = session_key(session, alias)
    rows = Session.objects.using(alias).filter(pk=key)
    row: Session | None = rows.defer(*ENCRYPTED).first()
    if row is None:
        raise SessionNotFoundError(f"session {key} does not exist")
    return row


def session_key(session: SessionName, using: str | None = None) -> UUID:
    """Return the primary key of a session for a service, which checks no owner.

    A ``session_id`` is one without a namespace and scope. A UUID may be the key of no session.
    """
    if (key := known_key(session)) is not None:
        return key
    rows = Session.objects.using(bridge.database(using)).filter(named_by(session)).only("pk")
    found: Session | None = the_named(session, rows[:2])
    if found is not None:
        return found.pk
    if isinstance(session, UUID):
        return session
    # Without the text, which may be content that was passed in the place of a session.
    raise SessionNotFoundError(
        "no session has this text as its primary key, or as its session_id without a namespace: "
        "pass its record or session.id"
    )
