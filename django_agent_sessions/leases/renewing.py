"""The thread that renews what this process holds: one for all, and only while there is any."""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .hold import Hold

_LINGER = 10.0


def clock() -> float:
    """Tells the time in seconds; it goes on while the machine sleeps."""
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class Renewer:
    """Renews holds in time, until they are discarded or nobody refers to them any more."""

    def __init__(self) -> None:
        self._reset()
        if hasattr(os, "register_at_fork"):
            # What the parent holds is the parent's, and its thread is not there.
            os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        self._changed = threading.Condition()
        self._holds: weakref.WeakSet[Hold] = weakref.WeakSet()
        self._thread: threading.Thread | None = None

    def add(self, hold: Hold) -> None:
        """Renews a hold from now on."""
        with self._changed:
            self._holds.add(hold)
            if self._thread is None:
                # A daemon: what a process that ends still holds expires.
                self._thread = threading.Thread(
                    target=self._work, name="agent-sessions-leases", daemon=True
                )
                self._thread.start()
            else:
                self._changed.notify()

    def discard(self, hold: Hold) -> None:
        """Renews a hold no longer."""
        with self._changed:
            self._holds.discard(hold)

    def _work(self) -> None:
        while (due := self._next()) is not None:
            while due:
                # Nothing of a run may live on in this thread.
                due.pop().renew_apart()

    def _next(self) -> list[Hold] | None:
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
                elif now - idle_since >= _LINGER:
                    self._thread = None
                    return None
                else:
                    self._changed.wait(_LINGER)


renewer = Renewer()
