"""Run work with a session's row locked, and once only even if the connection is lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar
from uuid import UUID

from django.db.models import F

from django_agent_sessions.exceptions import SessionConflictError, SessionNotFoundError
from django_agent_sessions.models import Session
from django_agent_sessions.values.ids import new_id

from ._base import in_caller_transaction, tracked_atomic, write

__all__ = [
    "in_caller_transaction",
    "lock_session",
    "tracked_atomic",
    "with_lock",
    "with_session_lock",
    "write",
]


R = TypeVar("R")


def lock_session(using: str, session: UUID, *, without: Sequence[str] = ()) -> Session | None:
    """Lock the session's row until the transaction ends, and return it; None if it was deleted.

    Columns that are listed in ``without`` are not read.

    A writer that passes its redaction epoch also locks this row, so it commits before this
    transaction or sees the new epoch.
    """
    rows = Session.objects.using(using).select_for_update().defer(*without)
    return rows.filter(pk=session).first()


def with_lock(
    using: str,
    lock: Callable[[], Session],
    work: Callable[[Session], R],
    *,
    what: str,
    savepoint: bool = True,
    around: Callable[[], AbstractContextManager[Any]] = nullcontext,
    changed: Callable[[R], bool] = lambda result: True,
    counted: Callable[[R], bool] = lambda result: True,
) -> R:
    """Run ``work`` once with the session's row locked; retry as :func:`~.base.write` does.

    A change that is ``counted`` increases the session's change number.

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
    savepoint: bool = True,
) -> R:
    """Run ``work`` as :func:`with_lock` does, for a session given by its primary key."""

    def lock() -> Session:
        if (row := lock_session(using, session)) is None:
            raise SessionNotFoundError(f"{what}: the session was deleted")
        return row

    return with_lock(using, lock, work, what=what, savepoint=savepoint)
