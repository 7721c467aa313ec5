"""Run the operations of an object in the order in which they were called."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future


class FifoLock:
    """A fair lock: first in, first out, across event loops and threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last_done: Future[None] | None = None

    def turn(self) -> FifoLockEntry:
        """Enter the queue."""
        done: Future[None] = Future()
        with self._lock:
            before, self._last_done = self._last_done, done
        return FifoLockEntry(before, done)


# Not a generator: the SDK leaves loops in a state in which no async generator can be started.
class FifoLockEntry:
    """A position in the queue; entering it waits for the previous one."""

    def __init__(self, previous: Future[None] | None, done: Future[None]) -> None:
        self._previous = previous
        self._done = done

    async def __aenter__(self) -> None:
        if self._previous is None:
            return
        try:
            # Shielded, because cancelling the wait would cancel the future.
            await asyncio.shield(asyncio.wrap_future(self._previous))
        except BaseException:
            # A cancelled turn must not let later ones run before earlier ones.
            self._previous.add_done_callback(lambda _: self._done.set_result(None))
            raise

    async def __aexit__(self, *error: object) -> None:
        self._done.set_result(None)
