"""Whether what a session has may be removed or changed, asked by the store and services before.

Content of a session under legal hold is neither deleted nor changed. Content can be added. What an
agent replaces as a matter of course, such as its state, is kept by ``store._held_copies``. On
PostgreSQL ``sql.triggers`` refuses plain SQL and the ORM, too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

from django.db import models

from django_agent_sessions.exceptions import LegalHoldError

if TYPE_CHECKING:
    from django_agent_sessions.models import Session

_MAX_NAMED = 100


REMOVABLE = models.Q(legal_hold=False)
"""The condition of sessions whose content may be removed."""


def may_remove(session: Session) -> bool:
    """Return whether what a session has may be removed: not under legal hold."""
    return not session.legal_hold


def kept_among(sessions: models.QuerySet[Session]) -> models.QuerySet[Session]:
    """Return the sessions of which nothing may be removed."""
    return sessions.filter(legal_hold=True)


def removal_error(sessions: Collection[Session], what: str = "") -> LegalHoldError:
    """Return the error for an operation that a legal hold forbids."""
    names = ", ".join(repr(session.session_id) for session in list(sessions)[:5])
    text = f"session {names} is under legal hold; release it first"
    return LegalHoldError(f"{what}: {text}" if what else text, sessions)


def refuse_removal(session: Session, what: str = "") -> None:
    """Raise ``LegalHoldError`` if a session, whose row the caller has locked, is under hold."""
    if not may_remove(session):
        raise removal_error([session], what)


def check_removable(
    sessions: models.QuerySet[Session] | Iterable[models.QuerySet[Session]], what: str = ""
) -> None:
    """Raise ``LegalHoldError`` if one of the sessions is under legal hold.

    Called before a deletion, because an error in the middle of one would break the caller's
    transaction.
    """
    groups = [sessions] if isinstance(sessions, models.QuerySet) else sessions
    held: dict[Any, Session] = {}
    for rows in groups:
        held |= {row.pk: row for row in kept_among(rows)[: _MAX_NAMED - len(held)]}
        if len(held) == _MAX_NAMED:
            break
    if held:
        raise removal_error(list(held.values()), what)


def lock_sessions_of(rows: models.QuerySet[Any]) -> list[Session]:
    """Lock the sessions of some rows; raise ``LegalHoldError`` if one is under legal hold."""
    sessions: Any = rows.model._meta.get_field("session").related_model
    found = sessions._base_manager.using(rows.db).filter(pk__in=rows.order_by().values("session"))
    # Locked first, so that none is put under legal hold meanwhile. Not the title and metadata,
    # whose key may have been destroyed.
    locked = list(found.order_by("pk").select_for_update().only("session_id", "legal_hold"))
    if held := [session for session in locked if not may_remove(session)]:
        raise removal_error(held)
    return locked
