"""A future for a function that another thread runs."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections.abc import Callable, Generator
from contextvars import Context
from typing import Any, Generic, TypeVar

R = TypeVar("R")


class DatabaseFuture(Generic[R]):
    """A function that another thread runs, and its outcome.

    A task can await it, or a thread wait for it. It implements the future protocol of asyncio
    (``asyncio.isfuture``). ``wrap_future`` would need another iteration of the loop and would pass
    on a cancellation: here a cancelled task is notified when the outcome is known.
    """

    __slots__ = (
        "_asyncio_future_blocking",
        "_done",
        "_done_lock",
        "_error",
        "_function",
        "_lock",
        "_result",
        "_wake",
        "queued",
    )

    def __init__(self, function: Callable[[], R]) -> None:
        self.queued = False
        """Whether it waits for a thread, and may need :meth:`WorkerPool.grow_if_waiting`."""
        self._function: Callable[[], R] | None = function
        self._result: R | None = None
        self._error: BaseException | None = None
        self._done = False
        self._lock = threading.Lock()
        self._done_lock: threading.Lock | None = None
        self._wake: Callable[[], object] | None = None
        self._asyncio_future_blocking = False

    def run(self, tidy: Callable[[], None] | None = None) -> None:
        """Call the function and wake up the waiter."""
        function, self._function = self._function, None
        if function is None:
            raise RuntimeError("a function can be run only once")
        try:
            self._result = function()
        except BaseException as error:
            self._error = error
        # Before the waiter wakes up, who may expect that nothing refers to its objects any more.
        function = None
        try:
            if tidy is not None:
                tidy()
        finally:
            self._notify()
            # The error refers to this frame, and this to the error.
            del self

    def _notify(self) -> None:
        with self._lock:
            self._done = True
            wake, done_lock = self._wake, self._done_lock
        if wake is not None:
            # The loop may have been closed meanwhile.
            with contextlib.suppress(RuntimeError):
                wake()
        if done_lock is not None:
            done_lock.release()

    def done(self) -> bool:
        """Return whether the outcome is known."""
        return self._done

    def result(self) -> R:
        """Return the result or raise the error; only if :meth:`done`."""
        try:
            if self._error is not None:
                raise self._error
            return self._result  # type: ignore[return-value]  # it is done
        finally:
            del self

    def wait(self, timeout: float = -1) -> bool:
        """Wait for the outcome, in one thread only; return whether it is known."""
        with self._lock:
            if self._done:
                return True
            if self._done_lock is None:
                self._done_lock = threading.Lock()
                self._done_lock.acquire()
        self._done_lock.acquire(timeout=timeout)
        return self._done

    def __await__(self) -> Generator[Any, None, R]:
        if not self._done:
            self._asyncio_future_blocking = True
            yield self
        return self.result()

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop of the task that awaits it."""
        return asyncio.get_running_loop()

    def add_done_callback(
        self, callback: Callable[[Any], object], *, context: Context | None = None
    ) -> None:
        """Make the running loop call a function when the outcome is known; for one task."""
        loop = asyncio.get_running_loop()
        wake = functools.partial(loop.call_soon_threadsafe, callback, self, context=context)
        with self._lock:
            if not self._done:
                self._wake = wake
                return
        wake()

    def cancel(self, msg: object = None) -> bool:
        """Refuse cancellation: the task continues when the outcome is known."""
        return False
