"""Threads of our own that do database work, each with its own connections.

A pool starts with one thread, because one connection serves many conversations faster than many
do. Another thread starts only when work has waited for :data:`PATIENCE` seconds, which means that
the others are stuck on a lock. A thread that has had nothing to do for a while closes its
connections and ends, so that an idle process holds no connection at all.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import os
import select
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Generator
from contextvars import Context
from typing import Any, Generic, TypeVar

from django.core import mail
from django.db import Error, connections
from django.db.backends.base.base import BaseDatabaseWrapper

R = TypeVar("R")

PATIENCE = 0.1
"""Seconds that work waits for a busy thread before another thread is started."""

LINGER = 0.4
"""Seconds that an idle thread keeps its connections where ``CONN_MAX_AGE`` is 0."""


_of_workers: weakref.WeakValueDictionary[int, BaseDatabaseWrapper] = weakref.WeakValueDictionary()
_kept: list[BaseDatabaseWrapper] = []
# Those that this thread has opened. Asking Django for all there are takes longer than a statement.
_opened = threading.local()


def remember_connection(connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
    """Notes what a thread of ours opened; a receiver of Django's ``connection_created``.

    Args:
        connection: The connection that was just opened.
        **kwargs: The rest of the signal.
    """
    mine = getattr(_opened, "connections", None)
    if mine is not None:
        mine.add(connection)
        _of_workers[id(connection)] = connection


def _own_connections() -> set[BaseDatabaseWrapper]:
    mine: set[BaseDatabaseWrapper] | None = getattr(_opened, "connections", None)
    if mine is None:
        mine = _opened.connections = set()
    return mine


def _keep_connections() -> None:
    """Keeps the workers' connections from being freed in a child that is about to be forked.

    The child has not their threads, and some drivers say goodbye to the server when a connection
    is freed: through the parent's socket, who would find its connection closed.
    """
    # References, because they are listed at once: other threads open connections meanwhile.
    opened = [reference() for reference in _of_workers.valuerefs()]
    _kept.extend(connection for connection in opened if connection is not None)


class WorkerPool:
    """Runs functions in threads, in order of submission, on as few threads as will do.

    Args:
        limit: Asked at each start of a thread: how many threads there may be.
        patience: Seconds that work may wait before one more thread is started; 0 starts one
            whenever none is idle.
    """

    def __init__(self, limit: Callable[[], int], patience: float = PATIENCE) -> None:
        self._limit = limit
        self._patience = patience
        self._reset()
        atexit.register(self.close)
        if hasattr(os, "register_at_fork"):
            # Threads do not survive a fork, and their connections belong to the parent.
            os.register_at_fork(
                before=_keep_connections,
                after_in_parent=_kept.clear,
                after_in_child=self._reset,
            )

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[Work[Any]] = deque()
        self._idle: list[_Desk] = []
        self._threads: set[threading.Thread] = set()
        self._closed = False

    @property
    def patience(self) -> float:
        """Seconds after which a waiting caller should call :meth:`nudge`."""
        return self._patience

    def submit(self, function: Callable[[], R]) -> Work[R]:
        """Gives a function to an idle thread, or queues it.

        Args:
            function: Called without arguments in one of the threads.

        Returns:
            It as work, to be awaited or waited for.

        Raises:
            RuntimeError: The interpreter is shutting down, or can start no thread.
        """
        work = Work(function)
        with self._lock:
            if self._closed:
                raise RuntimeError("cannot do database work while the interpreter shuts down")
            desk = self._idle.pop() if self._idle else None
            if desk is None:
                self._queue(work)
            else:
                desk.work = work
        if desk is not None:
            desk.bell.release()
        return work

    def nudge(self, work: Work[Any]) -> None:
        """Starts one more thread if this work still waits and there may be one more.

        Args:
            work: What :meth:`submit` returned.
        """
        with self._lock:
            if work in self._waiting:
                self._start()

    def close(self) -> None:
        """Finishes what is queued, closes all connections and ends all threads."""
        with self._lock:
            self._closed = True
            threads = list(self._threads)
            idle, self._idle = self._idle, []
        for desk in idle:
            desk.bell.release()
        for thread in threads:
            thread.join()

    def _queue(self, work: Work[Any]) -> None:
        self._waiting.append(work)
        work.queued = True
        if self._threads and self._patience:
            return
        try:
            self._start()
        except RuntimeError:
            # The system has no more threads. What is refused must not be done later.
            if not self._threads:
                self._waiting.pop()
                raise

    def _start(self) -> None:
        if len(self._threads) >= max(1, self._limit()):
            return
        # A daemon, so that a lingering thread does not keep the process; `close` joins it.
        thread = threading.Thread(target=self._work, name="agent-sessions", daemon=True)
        thread.start()
        # It cannot have ended yet: it needs the lock that is held here.
        self._threads.add(thread)

    def _work(self) -> None:
        _own_connections()
        try:
            while (work := self._next()) is not None:
                work.run(tidy_connections)
                # Nothing of the caller's may live on in an idle thread.
                del work
        finally:
            with self._lock:
                self._threads.discard(threading.current_thread())
            connections.close_all()

    def _next(self) -> Work[Any] | None:
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            if self._closed:
                return None
            # A new one each time, so that no bell of an earlier one rings late.
            desk = _Desk()
            self._idle.append(desk)
        if not desk.bell.acquire(timeout=linger_seconds()):
            with self._lock:
                if desk in self._idle:
                    self._idle.remove(desk)
                    self._threads.discard(threading.current_thread())
        return desk.work


class Work(Generic[R]):
    """A function that another thread calls, and its outcome: to be awaited, or waited for.

    It is a future-like object as asyncio knows them (``asyncio.isfuture``). ``wrap_future`` would
    take the loop one more turn, and pass a cancellation on: here a task that is cancelled gets to
    know of it when the outcome is there.

    Args:
        function: Called once, without arguments.
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
        """Calls the function, and tells who waits.

        Args:
            tidy: Called in between.
        """
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
        """Gives the outcome that there is.

        Returns:
            What the function returned.

        Raises:
            BaseException: What the function raised.
        """
        try:
            if self._error is not None:
                raise self._error
            return self._result  # type: ignore[return-value]  # it is done
        finally:
            del self

    def wait(self, timeout: float = -1) -> bool:
        """Waits for the outcome; for one thread.

        Args:
            timeout: Seconds; below 0 it is for ever.

        Returns:
            Whether it is there.
        """
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
        """Lets the running loop call a function when there is an outcome; for one task.

        Args:
            callback: Called with this.
            context: In which it is called.
        """
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


class _Desk:
    """Where an idle thread is given its next work; without any, it may go."""

    __slots__ = ("bell", "work")

    def __init__(self) -> None:
        self.bell = threading.Lock()
        self.bell.acquire()
        self.work: Work[Any] | None = None


def linger_seconds() -> float:
    """Tells how long an idle thread of ours may keep its connections.

    Returns:
        Seconds: the longest ``CONN_MAX_AGE`` of the connections this thread has open, and a
        moment even where that is 0, so that a run of appends does not reconnect each time.
    """
    ages = [c.settings_dict["CONN_MAX_AGE"] for c in _own_connections() if c.connection]
    return max([LINGER, *(threading.TIMEOUT_MAX if age is None else age for age in ages)])


def tidy_connections() -> None:
    """Closes this thread's connections that are broken, past their age, or a test's.

    A test run drops its database at the end, which a connection that lingers would prevent.
    """
    for connection in _own_connections():
        if connection.connection is None:
            continue
        too_old = connection.close_at is not None and (
            connection.settings_dict["CONN_MAX_AGE"] and time.monotonic() >= connection.close_at
        )
        # The work's outcome is known, and no driver's trouble with closing may hide it.
        with contextlib.suppress(Exception):
            broken = connection.errors_occurred and not connection.is_usable()
            if too_old or broken or connection.in_atomic_block or hasattr(mail, "outbox"):
                connection.close()
            else:
                connection.errors_occurred = False


def refresh(connection: BaseDatabaseWrapper) -> None:
    """Closes a connection that the server has ended, so that the next use opens a new one.

    Asking the server costs a round trip, so the socket is asked first: on one that the server
    closed there is something to read.

    Args:
        connection: A connection outside a transaction.
    """
    raw = connection.connection
    if raw is None or connection.vendor == "sqlite":
        return
    if hasattr(raw, "fileno"):
        try:
            readable, _, _ = select.select([raw], [], [], 0)
        except Exception:
            # Each driver has its own error for a connection that is closed.
            readable = [raw]
        if not readable:
            return
    if not connection.is_usable():
        abandon(connection)


def settle(connection: BaseDatabaseWrapper) -> None:
    """Forgets a transaction that ended with its connection, where Django goes on believing in it.

    MariaDB and MySQL are told of a transaction's end in a statement of its own. If the connection
    is lost in it, Django leaves the block and keeps the connection as it was: every later use of
    it would take part in a transaction that nobody can end. The error was raised by then.

    Args:
        connection: A connection that this thread uses.
    """
    if connection.in_atomic_block and not connection.atomic_blocks:
        # Django enters a block before its savepoint, and stays there if that fails.
        connection.in_atomic_block = connection.closed_in_transaction = False
    raw = connection.connection
    left = not (raw is None or connection.in_atomic_block or connection.autocommit)
    if not left or not connection.errors_occurred:
        return
    if getattr(raw, "closed", False) or (
        connection.vendor == "mysql" and not connection.is_usable()
    ):
        abandon(connection)


def abandon(connection: BaseDatabaseWrapper) -> None:
    """Closes a connection that is broken, so that the next use opens a new one.

    Args:
        connection: A connection outside a transaction.
    """
    # Django forgets it, also where the driver fails to close what is broken, or used elsewhere.
    with contextlib.suppress(Error):
        connection.close()
