"""The lease of a session, as a run uses it."""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Self
from uuid import UUID

from django.db import Error

from django_agent_sessions.db import bridge
from django_agent_sessions.exceptions import AgentSessionsError, SessionBusyError

from .held_lease import HeldLease

logger = logging.getLogger("django_agent_sessions")


class Lease:
    """The exclusive right to run in a session.

    A sync and async context manager that releases the lease. Created by
    :func:`~django_agent_sessions.leases.acquire`.
    """

    def __init__(self, hold: HeldLease, *, nested: bool = False) -> None:
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
        """Whether it expired before its renewal, or another run holds it."""
        return not self._released and self._hold.lost

    @property
    def released(self) -> bool:
        """Whether it was released."""
        return self._released

    def check(self) -> None:
        """Raise if the lease is not held any more; does not query the database.

        Raises:
            SessionBusyError: The lease was lost or released.
        """
        if self._released:
            raise SessionBusyError(f"the lease of session {self.session} was released")
        if self._hold.lost:
            raise SessionBusyError(
                f"this run lost the lease of session {self.session}: it was not renewed in time, "
                "and another run may have started. Reload the session and run again"
            )

    def keep(self) -> None:
        """Renew the lease until it is released, as :func:`acquire` does by default."""
        if not self._nested:
            self._hold.keep()

    def let_expire(self) -> None:
        """Stop renewing the lease, so that it expires unless it is released before."""
        if not self._nested:
            self._hold.let_expire()

    async def arenew(self) -> bool:
        """Renew the lease once.

        Returns:
            Whether this run still holds it.
        """
        if self._released:
            return False
        return await bridge.run_async(self._hold.renew, using=self._hold.using)

    def release(self) -> None:
        """Release the lease. If the database is not available, it expires later."""
        if self._leave():
            try:
                bridge.run_sync(self._hold.give_back, using=self._hold.using)
            except (Error, AgentSessionsError) as error:
                self._log_unreleased(error)

    async def arelease(self) -> None:
        """Async twin of :meth:`release`."""
        if self._leave():
            try:
                await bridge.run_async(self._hold.give_back, using=self._hold.using)
            except (Error, AgentSessionsError) as error:
                self._log_unreleased(error)

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

    def _log_unreleased(self, error: Exception) -> None:
        logger.warning(
            "could not release the lease of session %s (%s); it will expire",
            self.session,
            type(error).__name__,
        )
