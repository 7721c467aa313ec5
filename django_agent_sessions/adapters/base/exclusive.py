"""The leases of the runs of an object: one run of a session at a time."""

from __future__ import annotations

from collections.abc import Hashable

from django_agent_sessions import leases
from django_agent_sessions.exceptions import ConfigurationError, SessionBusyError
from django_agent_sessions.models.session_names import SessionName


def exclusive_runs(
    exclusive: bool, wait: float | None, *, outside: str = ""
) -> ExclusiveRuns | None:
    """Return the leases of an object's runs; None if its runs are not exclusive.

    Raises:
        ConfigurationError: ``wait`` is given for runs that are not exclusive.
    """
    if exclusive:
        return ExclusiveRuns(wait, outside=outside)
    if wait is not None:
        raise ConfigurationError("wait=… is for exclusive=True: other runs do not wait")
    return None


class ExclusiveRuns:
    """The leases of an object's runs, by a key of the run.

    A run may begin again within itself, as nested ``with`` blocks do. ``outside`` is the error of a
    write outside of any run; without it such a write is allowed.
    """

    def __init__(self, wait: float | None, *, outside: str = "") -> None:
        self.rejected: set[Hashable] = set()
        """The runs that lost their lease, and may have content that they could not write."""
        self._wait = wait
        self._outside = outside
        self._leases: dict[Hashable, list[leases.Lease]] = {}

    def lease(self, key: Hashable = None) -> leases.Lease | None:
        """Return the lease of a run, if it has one."""
        held = self._leases.get(key)
        return held[-1] if held else None

    def begin(self, session: SessionName, using: str, key: Hashable = None) -> None:
        """Wait for the session's lease; raise ``SessionBusyError`` after ``wait`` seconds."""
        self.add(leases.acquire(session, wait=self._wait, using=using), key)

    async def abegin(self, session: SessionName, using: str, key: Hashable = None) -> None:
        """Async version of :meth:`begin`."""
        self.add(await self.acquire(session, using), key)

    async def acquire(self, session: SessionName, using: str, *, keep: bool = True) -> leases.Lease:
        """Wait for the session's lease and return it, for :meth:`add`."""
        return await leases.aacquire(session, wait=self._wait, using=using, keep=keep)

    def add(self, lease: leases.Lease, key: Hashable = None) -> None:
        """Make an acquired lease the lease of a run."""
        self._leases.setdefault(key, []).append(lease)

    def end(self, key: Hashable = None) -> None:
        """Release the lease of a run, if it has one."""
        if (lease := self._remove(key)) is not None:
            lease.give_back()

    async def aend(self, key: Hashable = None) -> None:
        """Async version of :meth:`end`."""
        if (lease := self._remove(key)) is not None:
            await lease.arelease()

    def _remove(self, key: Hashable) -> leases.Lease | None:
        held = self._leases.get(key)
        if not held:
            return None
        lease = held.pop()
        if not held:
            del self._leases[key]
        return lease

    def check(self, key: Hashable = None) -> None:
        """Require that a run's lease is still valid; does not query the database.

        Raises ``SessionBusyError`` if it was lost.
        """
        lease = self.lease(key)
        if lease is None:
            if self._outside:
                raise ConfigurationError(self._outside)
            return
        try:
            lease.check()
        except SessionBusyError:
            self.rejected.add(key)
            raise
