"""A session that one run at a time may use."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from inspect import iscoroutine
from typing import Any, Self, TypeVar
from uuid import UUID

from django_agent_sessions import bridge, leases
from django_agent_sessions.exceptions import ConfigurationError
from django_agent_sessions.records import SessionRecord
from django_agent_sessions.store import SessionStore

R = TypeVar("R")


class Turns:
    """The leases under which one session object is used."""

    def __init__(self, session_id: str, wait: float | None) -> None:
        self._session_id = session_id
        self._wait = wait
        # More than one where one block is within another.
        self._leases: list[leases.Lease] = []

    def begin(self, session: UUID, using: str) -> None:
        """Waits for the session."""
        self._leases.append(leases.acquire(session, wait=self._wait, using=using))

    async def abegin(self, session: UUID, using: str) -> None:
        """Does what :meth:`begin` does."""
        self._leases.append(await leases.aacquire(session, wait=self._wait, using=using))

    def end(self) -> None:
        """Gives the session back."""
        self._leases.pop().release()

    async def aend(self) -> None:
        """Does what :meth:`end` does."""
        await self._leases.pop().arelease()

    def check(self) -> None:
        """Refuses to use the session without a lease; it does not ask the database."""
        if not self._leases:
            raise ConfigurationError(
                f"session {self._session_id!r} is exclusive: use it within `async with session:`, "
                "or `with session:` around Runner.run_sync"
            )
        self._leases[-1].check()

    def guarded(self, work: Callable[[], R]) -> Callable[[], R]:
        """Makes database work that looks for the lease right before it begins."""

        def guarded() -> R:
            self.check()
            return work()

        return guarded


class TakesTurns(ABC):
    """The block within which an exclusive session is used."""

    session_id: str
    _owner: Any
    _turns: Turns | None

    async def __aenter__(self) -> Self:
        """Waits until no other run uses the session."""
        turns = self._exclusive()
        store = await self._find_store(None)
        session = await bridge.run_async(partial(self._open, store), using=store.using)
        await turns.abegin(session.id, store.using)
        return self

    async def __aexit__(self, *error: object) -> None:
        """Lets the next run use the session."""
        await self._exclusive().aend()

    def __enter__(self) -> Self:
        """Does what the async block does, around ``Runner.run_sync``."""
        turns = self._exclusive()
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
        """Lets the next run use the session."""
        self._exclusive().end()

    def _exclusive(self) -> Turns:
        if self._turns is None:
            raise ConfigurationError(
                f"session {self.session_id!r} is not exclusive: make it with exclusive=True, or "
                "use it without a block"
            )
        return self._turns

    @abstractmethod
    async def _find_store(self, wrapper: Any) -> SessionStore:
        """Makes the owner's store."""

    @abstractmethod
    def _store(self, owner: Any, wrapper: Any) -> SessionStore:
        """Makes the store of an owner who was found."""

    @abstractmethod
    def _open(self, store: SessionStore) -> SessionRecord:
        """Finds the session, or makes it."""
