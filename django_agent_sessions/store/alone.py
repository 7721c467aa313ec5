"""Having a session to oneself: its row locked, in a transaction, and exactly once in effect."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar
from uuid import UUID

from django_agent_sessions.exceptions import SessionConflictError, SessionNotFoundError
from django_agent_sessions.ids import new_id
from django_agent_sessions.models import Session

from .base import whole, write

R = TypeVar("R")


def lock_session(using: str, session: UUID) -> Session | None:
    """Makes every writer of a session wait, until the transaction ends.

    A writer that carries its epoch looks at the session's row under a lock of its own, so it comes
    before this and is seen, or after and sees the new epoch.
    """
    return Session.objects.using(using).select_for_update().filter(pk=session).first()


def alone(
    using: str,
    lock: Callable[[], Session],
    work: Callable[[Session], R],
    *,
    what: str,
    savepoint: bool = True,
    around: Callable[[], AbstractContextManager[Any]] = nullcontext,
    changed: Callable[[R], bool] = lambda result: True,
) -> R:
    """Does something while every other writer of a session waits, and only once.

    It is done again where :func:`~.base.write` would. Where the connection breaks at the very
    commit, nobody says whether that was done: the transaction therefore leaves a mark of its own
    in the session's row, which is looked for before it is done again.
    """
    mark = new_id()
    doubtful: tuple[UUID | None, R] | None = None

    def attempt(unsure: bool) -> R:
        nonlocal doubtful
        with around(), whole(using):
            session = lock()
            before = session.last_write
            # With the row locked: a server may still commit what it was cut off from.
            if doubtful is not None and before == mark:
                return doubtful[1]
            if doubtful is not None and unsure and before != doubtful[0]:
                raise SessionConflictError(
                    f"{what}: the connection was lost, and it may have been done; read again "
                    "what is there"
                )
            result = work(session)
            if changed(result):
                doubtful = (before, result)
                rows = Session.objects.using(using).filter(pk=session.pk)
                rows.update(last_write=mark)
        return result

    return write(using, attempt, what=what, savepoint=savepoint)


def alone_in(
    using: str,
    session: UUID,
    work: Callable[[Session], R],
    *,
    what: str,
    savepoint: bool = True,
) -> R:
    """Does what :func:`alone` does, in a session of which the primary key is known."""

    def lock() -> Session:
        if (found := lock_session(using, session)) is None:
            raise SessionNotFoundError(f"{what}: its session was deleted")
        return found

    return alone(using, lock, work, what=what, savepoint=savepoint)
