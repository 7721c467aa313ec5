"""Exclusive sessions: one run at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from inspect import iscoroutine
from typing import Any, Self, TypeVar
from uuid import UUID

from django_agent_sessions import leases
from django_agent_sessions.db import bridge
from django_agent_sessions.exceptions import ConfigurationError
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.records import SessionRecord

R = TypeVar("R")


class ExclusiveLeases:
    """The leases under which a session object is used."""

    def __init__(self, session_id: str, wait: float | None) -> None:
        self._session_id = session_id
        self._wait = wait
        # Several if blocks are nested.
        self._leases: list[leases.Lease] = []

    def begin(self, session: UUID, using: str) -> None:
        """Wait for the session's lease; raise ``SessionBusyError`` after ``wait`` seconds."""
        self._leases.append(leases.acquire(session, wait=self._wait, using=using))

    async def abegin(self, session: UUID, using: str) -> None:
        """Async twin of :meth:`begin`."""
        self._leases.append(await leases.aacquire(session, wait=self._wait, using=using))

    def end(self) -> None:
        """Release the lease."""
        self._leases.pop().release()

    async def aend(self) -> None:
        """Async twin of :meth:`end`."""
        await self._leases.pop().arelease()

    def check(self) -> None:
        """Require a lease that is still valid; does not query the database.

        Raises ``ConfigurationError`` outside of a block, and ``SessionBusyError`` if the lease was
        lost.
        """
        if not self._leases:
            raise ConfigurationError(
                f"session {self._session_id!r} is exclusive: use it within `async with session:`, "
                "or `with session:` around Runner.run_sync"
            )
        self._leases[-1].check()

    def guarded(self, work: Callable[[], R]) -> Callable[[], R]:
        """Return a function that checks the lease and then calls ``work``."""

        def guarded() -> R:
            self.check()
            return work()

        return guarded


class ExclusiveSession(ABC):
    """The context manager in which an exclusive session is used."""

    session_id: str
    _owner: Any
    _turns: ExclusiveLeases | None

    async def __aenter__(self) -> Self:
        """Wait until no other run uses the session."""
        turns = self._require_turns()
        store = await self._find_store(None)
        session = await bridge.run_async(partial(self._open, store), using=store.using)
        await turns.abegin(session.id, store.using)
        return self

    async def __aexit__(self, *error: object) -> None:
        """Release the session for the next run."""
        await self._require_turns().aend()

    def __enter__(self) -> Self:
        """Sync twin of :meth:`__aenter__`, for use around ``Runner.run_sync``."""
        turns = self._require_turns()
        owner = self._owner
        if callable(owner):
            owner = owner(None)
            if iscoroutine(owner):
                owner.close()
                raise ConfigurationError(
                    f"the owner callable of session {self.session_id!r} is async: use `async with`"
                )
        store = self._store(owner, None)
        session = bridge.run_sync(partial(self._open, store), using=store.using)
        turns.begin(session.id, store.using)
        return self

    def __exit__(self, *error: object) -> None:
        """Release the session for the next run."""
        self._require_turns().end()

    def _require_turns(self) -> ExclusiveLeases:
        if self._turns is None:
            raise ConfigurationError(
                f"session {self.session_id!r} is not exclusive: create it with exclusive=True, or "
                "use it without a with block"
            )
        return self._turns

    @abstractmethod
    async def _find_store(self, wrapper: Any) -> SessionStore:
        """Return the store of the session's owner."""

    @abstractmethod
    def _store(self, owner: Any, wrapper: Any) -> SessionStore:
        """Return the store of this owner."""

    @abstractmethod
    def _open(self, store: SessionStore) -> SessionRecord:
        """Read the session, or create it."""
