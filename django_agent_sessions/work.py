"""A piece of work that another thread does, and its outcome."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections.abc import Callable, Generator
from contextvars import Context
from typing import Any, Generic, TypeVar

R = TypeVar("R")


class Work(Generic[R]):
    """A function that another thread calls, and its outcome: to be awaited, or waited for.

    It is a future-like object as asyncio knows them (``asyncio.isfuture``). ``wrap_future`` would
    take the loop one more turn, and pass a cancellation on: here a task that is cancelled gets to
    know of it when the outcome is there.
    """

    __slots__ = (
        "_asyncio_future_blocking",
        "_bell",
        "_done",
        "_error",
        "_function",
        "_lock",
        "_result",
        "_wake",
        "queued",
    )

    def __init__(self, function: Callable[[], R]) -> None:
        self.queued = False
        """Whether it had to wait for a thread, and may need :meth:`WorkerPool.nudge`."""
        self._function: Callable[[], R] | None = function
        self._result: R | None = None
        self._error: BaseException | None = None
        self._done = False
        self._lock = threading.Lock()
        self._bell: threading.Lock | None = None
        self._wake: Callable[[], object] | None = None
        self._asyncio_future_blocking = False

    def run(self, tidy: Callable[[], None] | None = None) -> None:
        """Calls the function, and tells who waits."""
        function, self._function = self._function, None
        if function is None:
            raise RuntimeError("work is done once")
        try:
            self._result = function()
        except BaseException as error:
            self._error = error
        try:
            if tidy is not None:
                tidy()
        finally:
            self._tell()
            # The error refers to this frame, and this to the error.
            del self, function

    def _tell(self) -> None:
        with self._lock:
            self._done = True
            wake, bell = self._wake, self._bell
        if wake is not None:
            # A loop that was closed meanwhile has nobody left to tell.
            with contextlib.suppress(RuntimeError):
                wake()
        if bell is not None:
            bell.release()

    def done(self) -> bool:
        """Tells whether there is an outcome."""
        return self._done

    def result(self) -> R:
        """Gives the outcome that there is."""
        try:
            if self._error is not None:
                raise self._error
            return self._result  # type: ignore[return-value]  # it is done
        finally:
            del self

    def wait(self, timeout: float = -1) -> bool:
        """Waits for the outcome; for one thread."""
        with self._lock:
            if self._done:
                return True
            if self._bell is None:
                self._bell = threading.Lock()
                self._bell.acquire()
        self._bell.acquire(timeout=timeout)
        return self._done

    def __await__(self) -> Generator[Any, None, R]:
        if not self._done:
            self._asyncio_future_blocking = True
            yield self
        return self.result()

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """Names the loop of whoever awaits it."""
        return asyncio.get_running_loop()

    def add_done_callback(
        self, callback: Callable[[Any], object], *, context: Context | None = None
    ) -> None:
        """Lets the running loop call a function when there is an outcome; for one task."""
        loop = asyncio.get_running_loop()
        wake = functools.partial(loop.call_soon_threadsafe, callback, self, context=context)
        with self._lock:
            if not self._done:
                self._wake = wake
                return
        wake()

    def cancel(self, msg: object = None) -> bool:
        """Says to a task that is being cancelled: not before the outcome is there."""
        return False
