"""The thread that renews the leases of this process; it runs only while there are any."""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .held_lease import HeldLease

_IDLE_SECONDS = 10.0


def clock() -> float:
    """Return the time in seconds, from a clock that also counts while the machine is suspended."""
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class Renewer:
    """Renew leases until they are discarded or garbage collected."""

    def __init__(self) -> None:
        self._reset()
        if hasattr(os, "register_at_fork"):
            # The leases belong to the parent process, and its thread does not exist here.
            os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        self._changed = threading.Condition()
        self._holds: weakref.WeakSet[HeldLease] = weakref.WeakSet()
        self._thread: threading.Thread | None = None

    def add(self, hold: HeldLease) -> None:
        with self._changed:
            self._holds.add(hold)
            if self._thread is None:
                # A daemon thread: the leases of a process that ends expire.
                self._thread = threading.Thread(
                    target=self._run, name="agent-sessions-leases", daemon=True
                )
                self._thread.start()
            else:
                self._changed.notify()

    def discard(self, hold: HeldLease) -> None:
        with self._changed:
            self._holds.discard(hold)

    def _run(self) -> None:
        while (due := self._next_due()) is not None:
            while due:
                # Popped, so that this thread keeps no reference to a run.
                due.pop().renew_in_thread()

    def _next_due(self) -> list[HeldLease] | None:
        idle_since = clock()
        with self._changed:
            while True:
                now = clock()
                due = [hold for hold in self._holds if hold.renewal_due <= now]
                if due:
                    return due
                if self._holds:
                    idle_since = now
                    self._changed.wait(min(hold.renewal_due for hold in self._holds) - now)
                elif now - idle_since >= _IDLE_SECONDS:
                    self._thread = None
                    return None
                else:
                    self._changed.wait(_IDLE_SECONDS)


renewer = Renewer()
