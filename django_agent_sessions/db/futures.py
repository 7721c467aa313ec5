"""Functions that a database thread runs, and what a task or a thread awaits until then."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections.abc import Callable, Generator, Iterable
from contextvars import Context
from typing import Any, Generic, TypeAlias, TypeVar

from django_agent_sessions.db.groups import GroupedCall

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
        "call",
        "queued",
    )

    def __init__(self, function: Callable[[], R], call: GroupedCall[R] | None = None) -> None:
        self.call = call
        """What the function carries out, if that can be done together with others."""
        self.queued = False
        """Whether it waits for a thread, and may need :meth:`WorkerPool.grow_if_waiting`."""
        self._function: Callable[[], R] | None = function
        self._result: R | None = None
        self._error: BaseException | None = None
        self._done = False
        self._lock = threading.Lock()
        self._done_lock: threading.Lock | None = None
        self._wake: _Wake | None = None
        self._asyncio_future_blocking = False

    def run(self, tidy: Callable[[], None] | None = None) -> None:
        """Call the function and wake up the waiter."""
        function = self._function
        if function is None:
            raise RuntimeError("a function can be run only once")
        self.settle(function)
        # Before the waiter wakes up, who may expect that nothing refers to its objects any more.
        function = None
        try:
            if tidy is not None:
                tidy()
        finally:
            notify([self])
            # The error refers to this frame, and this to the error.
            del self

    def settle(self, function: Callable[[], R]) -> None:
        """Call a function for the outcome; :func:`notify` wakes up the waiter."""
        self._function = self.call = None
        try:
            self._result = function()
        except BaseException as error:
            self._error = error
        finally:
            del self, function

    @property
    def is_settled(self) -> bool:
        """Whether the outcome is there, even if the waiter does not know it yet."""
        return self._function is None

    def finish(self) -> _Wake | None:
        """Wake up a waiting thread; return how to wake up a waiting task."""
        with self._lock:
            self._done = True
            wake, done_lock = self._wake, self._done_lock
        if done_lock is not None:
            done_lock.release()
        return wake

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
        callback = functools.partial(loop.call_soon, callback, self, context=context)
        with self._lock:
            if not self._done:
                self._wake = loop, callback
                return
        callback()

    def cancel(self, msg: object = None) -> bool:
        """Refuse cancellation: the task continues when the outcome is known."""
        return False


_Wake: TypeAlias = tuple[asyncio.AbstractEventLoop, Callable[[], object]]


def notify(works: Iterable[DatabaseFuture[Any]]) -> None:
    """Wake up the waiters of settled calls, with one wakeup for each loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Callable[[], object]]] = {}
    for work in works:
        if (wake := work.finish()) is not None:
            by_loop.setdefault(wake[0], []).append(wake[1])
    for loop, callbacks in by_loop.items():
        # The loop may have been closed meanwhile.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_call_all, callbacks)


def _call_all(callbacks: Iterable[Callable[[], object]]) -> None:
    for callback in callbacks:
        callback()
