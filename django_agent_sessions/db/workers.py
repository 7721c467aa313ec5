"""Threads that run database calls, each with its own connections.

A pool starts with one thread, because a single connection serves many conversations faster than
many connections do. Another thread starts only when a call has waited for ``GROW_AFTER_SECONDS``,
which means that the others are blocked by a lock. A thread that is idle for a while closes its
connections and ends, so that an idle process holds no connection.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from django.core import mail
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from django_agent_sessions.db.futures import DatabaseFuture, notify
from django_agent_sessions.db.groups import MAX_CALLS, GroupedCall

R = TypeVar("R")

GROW_AFTER_SECONDS = 0.1
"""Seconds that a call waits for a busy thread before another thread is started."""

IDLE_SECONDS = 0.4
"""Seconds that an idle thread keeps its connections where ``CONN_MAX_AGE`` is 0."""

_FORK_PATIENCE = 1.0
"""Seconds that a fork waits for the threads that have SQLite's files open."""


_of_workers: weakref.WeakValueDictionary[int, BaseDatabaseWrapper] = weakref.WeakValueDictionary()
_kept: list[BaseDatabaseWrapper] = []
_pools: list[WorkerPool] = []
# The connections that this thread opened. Listing Django's connections is slower than a statement.
_opened = threading.local()


def remember_connection(connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
    """Record a connection of one of our threads; a receiver of Django's ``connection_created``."""
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
    """Prevent the threads' connections from being freed in a child that is about to be forked.

    The child does not have their threads, and some drivers send a quit message when a connection is
    freed: over the parent's socket, which would close the parent's connection.
    """
    # valuerefs() is atomic: other threads open connections meanwhile.
    opened = [reference() for reference in _of_workers.valuerefs()]
    _kept.extend(connection for connection in opened if connection is not None)


class PoolUsage(NamedTuple):
    """How busy a pool is: its threads, those that wait for a call, and the calls that wait."""

    threads: int
    idle: int
    waiting: int


class WorkerPool:
    """Run functions in threads, in order of submission, on as few threads as necessary.

    ``limit`` returns the maximum number of threads. ``grow_after`` is the number of seconds that a
    call waits before another thread is started; with 0 a thread is started whenever none is idle.
    ``together`` carries out several grouped calls that wait, and settles those that it can; the
    others are then run one after the other.
    """

    def __init__(
        self,
        limit: Callable[[], int],
        patience: float = GROW_AFTER_SECONDS,
        *,
        together: Callable[[str, Sequence[DatabaseFuture[Any]]], None] | None = None,
    ) -> None:
        self._limit = limit
        self._patience = patience
        self._together = together
        self._reset()
        _pools.append(self)
        atexit.register(self.close)
        if hasattr(os, "register_at_fork"):
            # Threads do not survive a fork, and their connections belong to the parent.
            os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[DatabaseFuture[Any]] = deque()
        self._idle: list[_IdleThread] = []
        # When each thread that carries out calls together, or could have, began.
        self._grouping: dict[threading.Thread, float] = {}
        self._threads: set[threading.Thread] = set()
        self._closed = False

    @property
    def size(self) -> int:
        """The number of threads."""
        return len(self._threads)

    def usage(self) -> PoolUsage:
        """Return how busy it is now."""
        with self._lock:
            return PoolUsage(len(self._threads), len(self._idle), len(self._waiting))

    @property
    def grow_after(self) -> float:
        """Seconds after which a waiting caller should call :meth:`grow_if_waiting`."""
        return self._patience

    def submit(
        self, function: Callable[[], R], call: GroupedCall[R] | None = None
    ) -> DatabaseFuture[R]:
        """Hand a function to an idle thread, or queue it."""
        work = DatabaseFuture(function, call)
        with self._lock:
            if self._closed:
                raise RuntimeError("cannot do database work while the interpreter shuts down")
            # Usually no thread groups calls, and an idle one takes this call alone.
            waits = bool(self._grouping) and call is not None and self._has_group_soon()
            idle_thread = self._idle.pop() if self._idle and not waits else None
            if idle_thread is None:
                self._queue(work)
            else:
                idle_thread.work = work
                if call is not None:
                    self._grouping[idle_thread.thread] = time.monotonic()
        if idle_thread is not None:
            idle_thread.wakeup.release()
        return work

    def grow_if_waiting(self, work: DatabaseFuture[Any]) -> bool:
        """Start another thread if this call still waits and the limit allows.

        Returns whether to ask again later, because the call is in a group or can soon be in one.
        """
        with self._lock:
            if work not in self._waiting:
                # A group may put it back.
                return work.call is not None
            if work.call is not None and self._has_group_soon():
                return True
            if self._idle:
                self._waiting.remove(work)
                idle_thread = self._idle.pop()
                idle_thread.work = work
                idle_thread.wakeup.release()
            else:
                self._start()
            return False

    def _has_group_soon(self) -> bool:
        """Return whether a thread that does not seem blocked will take what waits together."""
        if self._together is None or not self._grouping:
            return False
        recently = time.monotonic() - self._patience
        return any(began > recently for began in self._grouping.values())

    def dismiss(self) -> None:
        """Make idle threads close their connections and end."""
        with self._lock:
            idle, self._idle = self._idle, []
            self._threads.difference_update(idle_thread.thread for idle_thread in idle)
        for idle_thread in idle:
            idle_thread.wakeup.release()

    def close(self) -> None:
        """Finish queued calls, close all connections and end all threads."""
        with self._lock:
            self._closed = True
            threads = list(self._threads)
            idle, self._idle = self._idle, []
        for idle_thread in idle:
            idle_thread.wakeup.release()
        for thread in threads:
            thread.join()

    def _queue(self, work: DatabaseFuture[Any]) -> None:
        self._waiting.append(work)
        work.queued = True
        if self._threads and self._patience:
            return
        try:
            self._start()
        except RuntimeError:
            # The system allows no more threads. A rejected call must not run later.
            if not self._threads:
                self._waiting.pop()
                raise

    def _start(self) -> None:
        if len(self._threads) >= max(1, self._limit()):
            return
        # A daemon, so that an idle thread does not keep the process alive; `close` joins it.
        thread = threading.Thread(target=self._work, name="agent-sessions", daemon=True)
        thread.start()
        # The thread cannot have ended yet: that requires the lock that is held here.
        self._threads.add(thread)

    def _work(self) -> None:
        _own_connections()
        try:
            while (work := self._next()) is not None:
                if work.call is None:
                    work.run(close_unusable_connections)
                else:
                    self._run_grouped(work)
                # An idle thread must not keep the caller's objects alive.
                del work
        finally:
            with self._lock:
                self._threads.discard(threading.current_thread())
            connections.close_all()

    def _run_grouped(self, first: DatabaseFuture[Any]) -> None:
        """Run a call, together with those at the front of the queue that fit."""
        thread = threading.current_thread()
        with self._lock:
            works = [first, *self._take_fitting(first)]
            self._grouping[thread] = time.monotonic()
        try:
            if len(works) == 1 or self._together is None or first.call is None:
                works.clear()
                first.run(close_unusable_connections)
            else:
                self._run_together(functools.partial(self._together, first.call.using), works)
        finally:
            with self._lock:
                self._grouping.pop(thread, None)
            del first

    def _take_fitting(self, first: DatabaseFuture[Any]) -> Iterator[DatabaseFuture[Any]]:
        if first.call is None or self._together is None:
            return
        keys = {first.call.key}
        while self._waiting and len(keys) < MAX_CALLS:
            call = self._waiting[0].call
            if call is None or call.key in keys or not call.fits(first.call):
                return
            keys.add(call.key)
            yield self._waiting.popleft()

    def _run_together(
        self,
        together: Callable[[list[DatabaseFuture[Any]]], None],
        works: list[DatabaseFuture[Any]],
    ) -> None:
        # What it does not settle runs by itself, and raises its own error there. Nothing may end
        # this thread before that, because the callers would wait for ever.
        with contextlib.suppress(BaseException):
            together(works)
        with self._lock:
            for work in reversed(works):
                if not work.is_settled:
                    work.call = None
                    self._waiting.appendleft(work)
        settled = [work for work in works if work.is_settled]
        works.clear()
        try:
            close_unusable_connections()
        finally:
            notify(settled)

    def _next(self) -> DatabaseFuture[Any] | None:
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            if self._closed:
                return None
            # A new object each time, so that a late wakeup of an earlier one has no effect.
            idle_thread = _IdleThread()
            self._idle.append(idle_thread)
        if not idle_thread.wakeup.acquire(timeout=idle_seconds()):
            with self._lock:
                if idle_thread in self._idle:
                    self._idle.remove(idle_thread)
                    self._threads.discard(threading.current_thread())
        return idle_thread.work


def _before_fork() -> None:
    """Close SQLite's files in idle threads, after a short wait for busy ones.

    SQLite records in the process's memory which locks the process holds. A child inherits that
    record but not the locks: it would write without a lock, and lose its writes when the parent
    closes the file and deletes the write-ahead log.
    """
    until = time.monotonic() + _FORK_PATIENCE
    while _has_files_open() and time.monotonic() < until:
        for pool in _pools:
            pool.dismiss()
        time.sleep(0.001)
    _keep_connections()


def _has_files_open() -> bool:
    opened = [reference() for reference in _of_workers.valuerefs()]
    # This thread closes its own connections itself.
    mine = getattr(_opened, "connections", ())
    return any(_has_file_open(connection) for connection in opened if connection not in mine)


def _has_file_open(connection: BaseDatabaseWrapper | None) -> bool:
    if connection is None or connection.connection is None or connection.vendor != "sqlite":
        return False
    in_memory: bool = connection.is_in_memory_db()  # type: ignore[attr-defined] # SQLite's have it
    return not in_memory


if hasattr(os, "register_at_fork"):
    # In the child the connections stay referenced in `_kept` and belong to no thread.
    os.register_at_fork(
        before=_before_fork, after_in_parent=_kept.clear, after_in_child=_of_workers.clear
    )


class _IdleThread:
    """An idle thread's mailbox: woken up without work, the thread ends."""

    __slots__ = ("thread", "wakeup", "work")

    def __init__(self) -> None:
        self.thread = threading.current_thread()
        self.wakeup = threading.Lock()
        self.wakeup.acquire()
        self.work: DatabaseFuture[Any] | None = None


def idle_seconds() -> float:
    """Return how long an idle thread may keep its connections open, in seconds."""
    ages = [c.settings_dict["CONN_MAX_AGE"] for c in _own_connections() if c.connection]
    return max([IDLE_SECONDS, *(threading.TIMEOUT_MAX if age is None else age for age in ages)])


def close_unusable_connections() -> None:
    """Close this thread's connections that are broken, older than ``CONN_MAX_AGE``, or a test's.

    An open connection would prevent a test run from dropping its database.
    """
    for connection in _own_connections():
        if connection.connection is None:
            continue
        too_old = connection.close_at is not None and (
            connection.settings_dict["CONN_MAX_AGE"] and time.monotonic() >= connection.close_at
        )
        # The outcome is known, and an error while closing must not replace it.
        with contextlib.suppress(Exception):
            broken = connection.errors_occurred and not connection.is_usable()
            if too_old or broken or connection.in_atomic_block or hasattr(mail, "outbox"):
                connection.close()
            else:
                connection.errors_occurred = False
