"""Letting operations of one object happen in the order in which they were begun."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import asynccontextmanager


class Queue:
    """One at a time, first come first served, in whatever event loops and threads they are."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: Future[None] | None = None

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Waits for those that came before.

        The place is taken before anything is waited for.
        """
        done: Future[None] = Future()
        with self._lock:
            before, self._last = self._last, done
        try:
            if before is not None:
                # Shielded, because a cancelled wait would cancel what it waits for.
                await asyncio.shield(asyncio.wrap_future(before))
            yield
        finally:
            # Whoever gives up its place lets nobody pass those before it.
            if before is None or before.done():
                done.set_result(None)
            else:
                before.add_done_callback(lambda _: done.set_result(None))
