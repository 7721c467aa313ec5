"""Run work with a session's row locked, and once only even if the connection is lost."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeAlias, TypeVar
from uuid import UUID

from django.db.models import F

from django_agent_sessions.db.retries import tracked_atomic, write
from django_agent_sessions.exceptions import (
    SessionConflictError,
    SessionNotFoundError,
    StaleSessionError,
)
from django_agent_sessions.models import Session, removal
from django_agent_sessions.models.deletion import ENCRYPTED
from django_agent_sessions.models.querysets import SessionQuerySet
from django_agent_sessions.values.ids import new_id

__all__ = [
    "Removal",
    "check_removal",
    "lock_session",
    "lock_sessions",
    "with_lock",
    "with_session_lock",
]


R = TypeVar("R")

Removal: TypeAlias = bool | Callable[[], bool]
"""Whether a change removes or replaces what a session has; a function is called with its lock."""


def check_removal(session: Session, removes: Removal, what: str = "") -> None:
    """Raise ``LegalHoldError`` if a change removes what a locked session must keep."""
    if not removal.may_remove(session) and (removes() if callable(removes) else removes):
        raise removal.removal_error([session], what)


def lock_session(
    using: str,
    session: UUID,
    *,
    content: bool = False,
    removes: Removal = False,
    what: str = "",
) -> Session | None:
    """Lock the session's row until the transaction ends, and return it; None if it was deleted.

    Its title and metadata are read only as ``content``, because their key may have been destroyed.
    Raises ``LegalHoldError`` as :func:`check_removal` does.

    A writer that passes its redaction epoch also locks this row, so it commits before this
    transaction or sees the new epoch.
    """
    rows = Session.objects.using(using).select_for_update().filter(pk=session)
    row = (rows if content else rows.defer(*ENCRYPTED)).first()
    if row is not None:
        check_removal(row, removes, what)
    return row


def lock_sessions(
    rows: SessionQuerySet, *, removes: Removal = False, what: str = ""
) -> list[Session]:
    """Lock some sessions as :func:`lock_session` does one."""
    sessions = list(rows.select_for_update().defer(*ENCRYPTED))
    for session in sessions:
        check_removal(session, removes, what)
    return sessions


def with_lock(
    using: str,
    lock: Callable[[], Session],
    work: Callable[[Session], R],
    *,
    what: str,
    epoch: int | None = None,
    removes: Removal = False,
    savepoint: bool = True,
    around: Callable[[], AbstractContextManager[Any]] = nullcontext,
    changed: Callable[[R], bool] = lambda result: True,
    counted: Callable[[R], bool] = lambda result: True,
) -> R:
    """Run ``work`` once with the session's row locked; retry as ``write`` does.

    A change that is ``counted`` increases the session's change number. Without the session's
    redaction ``epoch``, ``StaleSessionError`` is raised. What ``removes`` is refused under legal
    hold.

    If the connection is lost during the commit, its outcome is unknown. The transaction therefore
    writes a unique mark into the session's row, and a retry looks for it first.
    """
    mark = new_id()
    unconfirmed: tuple[UUID | None, R] | None = None

    def attempt(unsure: bool) -> R:
        nonlocal unconfirmed
        with around(), tracked_atomic(using):
            session = lock()
            last_write = session.last_write
            # Read under the lock: a server may still commit after its client disconnected.
            if unconfirmed is not None and last_write == mark:
                return unconfirmed[1]
            if unconfirmed is not None and unsure and last_write != unconfirmed[0]:
                raise SessionConflictError(
                    f"{what}: the connection was lost and the outcome is unknown; reload the "
                    "session before trying again"
                )
            if epoch not in (None, session.redaction_epoch):
                raise StaleSessionError(
                    f"{what}: content was redacted; reload the session and retry"
                )
            check_removal(session, removes, what)
            result = work(session)
            if changed(result):
                unconfirmed = (last_write, result)
                rows = Session.objects.using(using).filter(pk=session.pk)
                number = {"change": F("change") + 1} if counted(result) else {}
                rows.update(last_write=mark, **number)
        return result

    return write(using, attempt, what=what, savepoint=savepoint)


def with_session_lock(
    using: str,
    session: UUID,
    work: Callable[[Session], R],
    *,
    what: str,
    epoch: int | None = None,
    removes: Removal = False,
    savepoint: bool = True,
) -> R:
    """Run ``work`` as :func:`with_lock` does, for a session given by its primary key."""

    def lock() -> Session:
        if (row := lock_session(using, session)) is None:
            raise SessionNotFoundError(f"{what}: the session was deleted")
        return row

    return with_lock(
        using, lock, work, what=what, epoch=epoch, removes=removes, savepoint=savepoint
    )
