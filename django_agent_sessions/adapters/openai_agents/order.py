"""Letting operations of one object happen in the order in which they were begun."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future


class Queue:
    """One at a time, first come first served, in whatever event loops and threads they are."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: Future[None] | None = None

    def turn(self) -> Turn:
        """Takes a place behind those that came before."""
        done: Future[None] = Future()
        with self._lock:
            before, self._last = self._last, done
        return Turn(before, done)


# Not a generator: the SDK leaves loops behind in which no new one may be begun.
class Turn:
    """A place in a queue."""

    def __init__(self, before: Future[None] | None, done: Future[None]) -> None:
        self._before = before
        self._done = done

    async def __aenter__(self) -> None:
        if self._before is None:
            return
        try:
            # Shielded, because a cancelled wait would cancel what it waits for.
            await asyncio.shield(asyncio.wrap_future(self._before))
        except BaseException:
            # Whoever gives up its place lets nobody pass those before it.
            self._before.add_done_callback(lambda _: self._done.set_result(None))
            raise

    async def __aexit__(self, *error: object) -> None:
        self._done.set_result(None)
