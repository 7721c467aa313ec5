"""Getting a lease, and waiting for it."""

from __future__ import annotations

import asyncio
import contextvars
import random
import time
import weakref
from uuid import UUID

from django_agent_sessions import bridge, conf
from django_agent_sessions.exceptions import ConfigurationError, SessionBusyError

from .hold import Hold, recently_had
from .lease import Lease
from .renewing import clock
from .rows import Busy

_FIRST_PAUSE = 0.2
_SHORTEST_PAUSE = 0.05
_AGEING = 5.0
_POLITENESS = 0.06

# What the run holds in which this call is, if it is in one. Weak, because a context may outlive it.
_around: contextvars.ContextVar[tuple[weakref.ref[Hold], ...]] = contextvars.ContextVar(
    "agent_sessions_leases", default=()
)


def acquire(
    session: UUID,
    *,
    wait: float | None = None,
    seconds: float | None = None,
    using: str | None = None,
    keep: bool = True,
) -> Lease:
    """Waits until no other run holds a session, and holds it.

    Within a run that holds the session already, in the same task or a tool of it, the run's lease
    is shared, and given back when both have ended.

    Args:
        session: Primary key of the session: ``SessionStore(…).open("user-123").id``.
        wait: How many seconds to wait; 0 does not wait. ``LEASE_WAIT_SECONDS``, if not given.
        seconds: After how many seconds without a sign of life others may have it.
            ``LEASE_SECONDS``, if not given.
        using: The alias of the database, if it is not the configured one.
        keep: Whether it is renewed until it is released; else only once :meth:`Lease.keep` is
            called.

    Returns:
        The lease, a context manager.

    Raises:
        SessionBusyError: Another run held it all the time.
        SessionNotFoundError: There is no such session.
        ConfigurationError: A transaction is open here, or the numbers make no sense.
    """
    attempt = _Attempt(session, wait, seconds, using, keep)
    if (lease := attempt.within()) is not None:
        return lease
    time.sleep(attempt.politeness())
    while True:
        try:
            busy = bridge.run_sync(attempt.hold.take, using=attempt.hold.using)
        except BaseException:
            # A signal's error, say: what was taken must not stay so.
            if attempt.hold.taken:
                Lease(attempt.hold).release()
            raise
        if busy is None:
            return attempt.lease()
        time.sleep(attempt.pause(busy))


async def aacquire(
    session: UUID,
    *,
    wait: float | None = None,
    seconds: float | None = None,
    using: str | None = None,
    keep: bool = True,
) -> Lease:
    """Does what :func:`acquire` does, and does not block the event loop.

    Args:
        session: As for :func:`acquire`.
        wait: As for :func:`acquire`.
        seconds: As for :func:`acquire`.
        using: As for :func:`acquire`.
        keep: As for :func:`acquire`.

    Returns:
        The lease, an async context manager: ``async with await aacquire(session): …``.

    Raises:
        SessionBusyError: As for :func:`acquire`.
        SessionNotFoundError: As for :func:`acquire`.
        ConfigurationError: As for :func:`acquire`.
    """
    attempt = _Attempt(session, wait, seconds, using, keep)
    if (lease := attempt.within()) is not None:
        return lease
    if politeness := attempt.politeness():
        await asyncio.sleep(politeness)
    while True:
        try:
            busy = await bridge.run_async(attempt.hold.take, using=attempt.hold.using)
        except BaseException:
            # A cancellation comes when the statement's outcome is known.
            if attempt.hold.taken:
                await Lease(attempt.hold).arelease()
            raise
        if busy is None:
            return attempt.lease()
        await asyncio.sleep(attempt.pause(busy))


class _Attempt:
    """Somebody who waits for a session."""

    def __init__(
        self,
        session: UUID,
        wait: float | None,
        seconds: float | None,
        using: str | None,
        keep: bool,
    ) -> None:
        settings = conf.get_settings()
        self._wait = settings.LEASE_WAIT_SECONDS if wait is None else wait
        seconds = settings.LEASE_SECONDS if seconds is None else seconds
        if not seconds > 0 or not self._wait >= 0:
            raise ConfigurationError(
                f"a lease needs seconds above 0 and a wait of 0 or more, not {seconds!r} and "
                f"{self._wait!r}"
            )
        self.hold = Hold(session, seconds=seconds, using=bridge.database(using))
        self._keep = keep
        self._started = clock()

    def within(self) -> Lease | None:
        """Finds the lease of the run that this one is within."""
        for reference in _around.get():
            hold = reference()
            if (
                hold is not None
                and (hold.using, hold.session) == (self.hold.using, self.hold.session)
                and hold.enter()
            ):
                return Lease(hold, nested=True)
        return None

    def politeness(self) -> float:
        """Seconds for which this process lets others go first, because it just had its turn."""
        if not self._wait or not recently_had(self.hold.using, self.hold.session):
            return 0
        return random.uniform(_POLITENESS / 2, _POLITENESS)  # noqa: S311 - not a secret

    def pause(self, busy: Busy) -> float:
        """Seconds until it asks again: the longer it has waited, the sooner."""
        waited = clock() - self._started
        if waited >= self._wait:
            raise SessionBusyError(
                f"session {self.hold.session} is busy: {busy.holder or 'another process'} has "
                f"held it for {busy.age.total_seconds():.1f} s, and this run has waited for "
                f"{waited:.1f} s. Try again later, or raise the wait or LEASE_WAIT_SECONDS"
            )
        longest = max(_SHORTEST_PAUSE, _FIRST_PAUSE / (1 + waited / _AGEING))
        pause = longest * random.uniform(0.5, 1)  # noqa: S311 - not a secret
        return min(pause, self._wait - waited)

    def lease(self) -> Lease:
        """Makes the lease of what was taken."""
        alive = [r for r in _around.get() if (h := r()) is not None and h.taken]
        _around.set((weakref.ref(self.hold), *alive))
        if self._keep:
            self.hold.keep()
        return Lease(self.hold)
