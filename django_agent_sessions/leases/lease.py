"""The lease of a session as a run uses it, and its acquisition."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import logging
import random
import time
import weakref
from types import TracebackType
from typing import Self
from uuid import UUID

from django.db import Error

from django_agent_sessions import conf
from django_agent_sessions.db import bridge
from django_agent_sessions.db.loop_guard import sync_only
from django_agent_sessions.exceptions import (
    AgentSessionsError,
    ConfigurationError,
    SessionBusyError,
)
from django_agent_sessions.models.session_names import SessionName, known_key, session_key

from .held_lease import HeldLease, clock, was_released_recently
from .lease_rows import LeaseHolder

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

    @functools.partial(sync_only, twin="arelease")
    def release(self) -> None:
        """Release the lease. If the database is not available, it expires later."""
        self.give_back()

    def give_back(self) -> None:
        """Release the lease, also in a running event loop, which is blocked meanwhile."""
        if self._leave():
            try:
                bridge.run_sync(self._hold.give_back, using=self._hold.using)
            except (Error, AgentSessionsError) as error:
                self._log_unreleased(error)

    async def arelease(self) -> None:
        """Async version of :meth:`release`."""
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
        self.give_back()

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


_FIRST_PAUSE = 0.2
_SHORTEST_PAUSE = 0.05
_AGEING_SECONDS = 5.0
_BACK_OFF = 0.06

# The leases of the runs around this call. Weak, because a context may outlive its run.
_enclosing_holds: contextvars.ContextVar[tuple[weakref.ref[HeldLease], ...]] = (
    contextvars.ContextVar("agent_sessions_leases", default=())
)


@functools.partial(sync_only, twin="aacquire")
def acquire(
    session: SessionName,
    *,
    wait: float | None = None,
    seconds: float | None = None,
    using: str | None = None,
    keep: bool = True,
) -> Lease:
    """Wait until no other run holds the session's lease, and acquire it.

    A call within a run that already holds the lease (the same task, or a tool that it calls) shares
    it. The lease is released when both have ended.

    Args:
        session: The session: its record, its model instance, its primary key or its
            ``session_id`` without a namespace.
        wait: Maximum wait in seconds; 0 does not wait. By default ``LEASE_WAIT_SECONDS``.
        seconds: Seconds after the last renewal until the lease expires. By default
            ``LEASE_SECONDS``.
        using: The database alias; by default the configured one.
        keep: Whether the lease is renewed until it is released; otherwise only after
            :meth:`Lease.keep` was called.

    Returns:
        The lease, a context manager.

    Raises:
        SessionBusyError: Another run held the lease until the wait ended.
        SessionNotFoundError: The session does not exist.
        ConfigurationError: A transaction is open, or the numbers are invalid.
        SynchronousCallError: An event loop runs in this thread: await :func:`aacquire`.
    """
    alias = bridge.database(using)
    if (key := known_key(session)) is None:
        key = bridge.run_sync(functools.partial(session_key, session, alias), using=alias)
    attempt = _Attempt(key, wait, seconds, alias, keep)
    if (lease := attempt.nested_lease()) is not None:
        return lease
    time.sleep(attempt.back_off())
    while True:
        try:
            busy = bridge.run_sync(attempt.hold.take, using=attempt.hold.using)
        except BaseException:
            # For example a signal handler's error: release what was acquired.
            if attempt.hold.taken:
                Lease(attempt.hold).give_back()
            raise
        if busy is None:
            return attempt.lease()
        time.sleep(attempt.pause(busy))


async def aacquire(
    session: SessionName,
    *,
    wait: float | None = None,
    seconds: float | None = None,
    using: str | None = None,
    keep: bool = True,
) -> Lease:
    """Async version of :func:`acquire`; it does not block the event loop.

    Args:
        session: See ``acquire``.
        wait: See ``acquire``.
        seconds: See ``acquire``.
        using: See ``acquire``.
        keep: See ``acquire``.

    Returns:
        The lease, an async context manager: ``async with await aacquire(session): …``.

    Raises:
        SessionBusyError: Another run held the lease until the wait ended.
        SessionNotFoundError: The session does not exist.
        ConfigurationError: A transaction is open, or the numbers are invalid.
    """
    alias = bridge.database(using)
    if (key := known_key(session)) is None:
        key = await bridge.run_async(functools.partial(session_key, session, alias), using=alias)
    attempt = _Attempt(key, wait, seconds, alias, keep)
    if (lease := attempt.nested_lease()) is not None:
        return lease
    if back_off := attempt.back_off():
        await asyncio.sleep(back_off)
    while True:
        try:
            busy = await bridge.run_async(attempt.hold.take, using=attempt.hold.using)
        except BaseException:
            # A cancellation arrives after the statement's outcome is known.
            if attempt.hold.taken:
                await Lease(attempt.hold).arelease()
            raise
        if busy is None:
            return attempt.lease()
        await asyncio.sleep(attempt.pause(busy))


class _Attempt:
    """One call that waits for a lease."""

    def __init__(
        self,
        session: UUID,
        wait: float | None,
        seconds: float | None,
        using: str,
        keep: bool,
    ) -> None:
        settings = conf.get_settings()
        self._wait = settings.LEASE_WAIT_SECONDS if wait is None else wait
        seconds = settings.LEASE_SECONDS if seconds is None else seconds
        if not seconds > 0 or not self._wait >= 0:
            raise ConfigurationError(
                f"seconds must be greater than 0 and wait must be 0 or more, not {seconds!r} and "
                f"{self._wait!r}"
            )
        self.hold = HeldLease(session, seconds=seconds, using=using)
        self._keep = keep
        self._started = clock()

    def nested_lease(self) -> Lease | None:
        """Return a nested lease if this call runs within a run that holds the lease."""
        for reference in _enclosing_holds.get():
            hold = reference()
            if (
                hold is not None
                and (hold.using, hold.session) == (self.hold.using, self.hold.session)
                and hold.enter()
            ):
                return Lease(hold, nested=True)
        return None

    def back_off(self) -> float:
        """Seconds to wait first, because this process held the lease a moment ago."""
        if not self._wait or not was_released_recently(self.hold.using, self.hold.session):
            return 0
        return random.uniform(_BACK_OFF / 2, _BACK_OFF)  # noqa: S311 - not a secret

    def pause(self, busy: LeaseHolder) -> float:
        """Seconds until the next attempt; shorter the longer the call has waited."""
        waited = clock() - self._started
        if waited >= self._wait:
            raise SessionBusyError(
                f"session {self.hold.session} is busy: {busy.holder or 'another process'} has "
                f"held its lease for {busy.age.total_seconds():.1f} s; gave up after waiting for "
                f"{waited:.1f} s. Try again later, or increase wait or LEASE_WAIT_SECONDS"
            )
        longest = max(_SHORTEST_PAUSE, _FIRST_PAUSE / (1 + waited / _AGEING_SECONDS))
        pause = longest * random.uniform(0.5, 1)  # noqa: S311 - not a secret
        return min(pause, self._wait - waited)

    def lease(self) -> Lease:
        """Return the lease after it was acquired."""
        alive = [r for r in _enclosing_holds.get() if (h := r()) is not None and h.taken]
        _enclosing_holds.set((weakref.ref(self.hold), *alive))
        if self._keep:
            self.hold.keep()
        return Lease(self.hold)
