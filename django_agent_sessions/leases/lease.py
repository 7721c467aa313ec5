"""A run's lease of a session."""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Self
from uuid import UUID

from django.db import Error

from django_agent_sessions import bridge
from django_agent_sessions.exceptions import AgentSessionsError, SessionBusyError

from .hold import Hold

logger = logging.getLogger("django_agent_sessions")


class Lease:
    """The right to run in a session, and to be the only one.

    It is a context manager, sync and async, that gives the session back. Get one from
    :func:`~django_agent_sessions.leases.acquire`.
    """

    def __init__(self, hold: Hold, *, nested: bool = False) -> None:
        self._hold = hold
        self._nested = nested
        self._released = False

    def __repr__(self) -> str:
        return f"<Lease of session {self.session}>"

    @property
    def session(self) -> UUID:
        """Primary key of the session."""
        return self._hold.session

    @property
    def lost(self) -> bool:
        """Whether it expired before it could be renewed, or somebody else has it."""
        return not self._released and self._hold.lost

    @property
    def released(self) -> bool:
        """Whether it was given back."""
        return self._released

    def check(self) -> None:
        """Refuses to go on without the lease; it does not ask the database.

        Raises:
            SessionBusyError: It was lost, or given back.
        """
        if self._released:
            raise SessionBusyError(f"the lease of session {self.session} was given back")
        if self._hold.lost:
            raise SessionBusyError(
                f"session {self.session} is no longer this run's: its lease was not renewed in "
                "time, and another run may have begun. Read the session again, and run again"
            )

    def keep(self) -> None:
        """Has it renewed until it is released, as :func:`acquire` does by itself."""
        if not self._nested:
            self._hold.keep()

    def let_expire(self) -> None:
        """Has it renewed no longer: unless it is released soon, it expires."""
        if not self._nested:
            self._hold.let_expire()

    async def arenew(self) -> bool:
        """Renews it once.

        Returns:
            Whether it still is this run's.
        """
        if self._released:
            return False
        return await bridge.run_async(self._hold.renew, using=self._hold.using)

    def release(self) -> None:
        """Gives it back. If the database cannot be asked, it expires by itself."""
        if self._leave():
            try:
                bridge.run_sync(self._hold.give_back, using=self._hold.using)
            except (Error, AgentSessionsError) as error:
                self._note_unreleased(error)

    async def arelease(self) -> None:
        """Does what :meth:`release` does."""
        if self._leave():
            try:
                await bridge.run_async(self._hold.give_back, using=self._hold.using)
            except (Error, AgentSessionsError) as error:
                self._note_unreleased(error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.arelease()

    def _leave(self) -> bool:
        if self._released:
            return False
        self._released = True
        return self._hold.leave()

    def _note_unreleased(self, error: Exception) -> None:
        logger.warning(
            "session %s was not given back (%s); its lease will expire",
            self.session,
            type(error).__name__,
        )
