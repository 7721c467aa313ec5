"""Threads of our own that do database work, each with its own connections.

A pool starts with one thread, because one connection serves many conversations faster than many
do. Another thread starts only when work has waited for :data:`PATIENCE` seconds, which means that
the others are stuck on a lock. A thread that has had nothing to do for a while closes its
connections and ends, so that an idle process holds no connection at all.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from django.core import mail
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from .work import Work

R = TypeVar("R")

PATIENCE = 0.1
"""Seconds that work waits for a busy thread before another thread is started."""

LINGER = 0.4
"""Seconds that an idle thread keeps its connections where ``CONN_MAX_AGE`` is 0."""

_FORK_PATIENCE = 1.0
"""Seconds that a fork waits for the threads that have SQLite's files open."""


_of_workers: weakref.WeakValueDictionary[int, BaseDatabaseWrapper] = weakref.WeakValueDictionary()
_kept: list[BaseDatabaseWrapper] = []
_pools: list[WorkerPool] = []
# Those that this thread has opened. Asking Django for all there are takes longer than a statement.
_opened = threading.local()


def remember_connection(connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
    """Notes what a thread of ours opened; a receiver of Django's ``connection_created``."""
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
    """Runs functions in threads, in order of submission, on as few threads as will do."""

    def __init__(self, limit: Callable[[], int], patience: float = PATIENCE) -> None:
        self._limit = limit
        self._patience = patience
        self._reset()
        _pools.append(self)
        atexit.register(self.close)
        if hasattr(os, "register_at_fork"):
            # Threads do not survive a fork, and their connections belong to the parent.
            os.register_at_fork(after_in_child=self._reset)

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
        """Gives a function to an idle thread, or queues it."""
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
        """Starts one more thread if this work still waits and there may be one more."""
        with self._lock:
            if work in self._waiting:
                self._start()

    def dismiss(self) -> None:
        """Lets idle threads close their connections and end."""
        with self._lock:
            idle, self._idle = self._idle, []
            self._threads.difference_update(desk.thread for desk in idle)
        for desk in idle:
            desk.bell.release()

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


def _before_fork() -> None:
    """Closes SQLite's files in our idle threads; those that work are waited for a moment.

    SQLite knows in the process's memory which locks the process has. A child inherits that memory
    and none of the locks: it would write without one, and lose what it wrote when the parent closes
    the file and takes the write-ahead log away.
    """
    until = time.monotonic() + _FORK_PATIENCE
    while _has_files_open() and time.monotonic() < until:
        for pool in _pools:
            pool.dismiss()
        time.sleep(0.001)
    _keep_connections()


def _has_files_open() -> bool:
    opened = [reference() for reference in _of_workers.valuerefs()]
    # This thread's own are its own to close.
    mine = getattr(_opened, "connections", ())
    return any(_has_file_open(connection) for connection in opened if connection not in mine)


def _has_file_open(connection: BaseDatabaseWrapper | None) -> bool:
    if connection is None or connection.connection is None or connection.vendor != "sqlite":
        return False
    in_memory: bool = connection.is_in_memory_db()  # type: ignore[attr-defined] # SQLite's have it
    return not in_memory


if hasattr(os, "register_at_fork"):
    # In the child they are kept, and nobody's.
    os.register_at_fork(
        before=_before_fork, after_in_parent=_kept.clear, after_in_child=_of_workers.clear
    )


class _Desk:
    """Where an idle thread is given its next work; without any, it may go."""

    __slots__ = ("bell", "thread", "work")

    def __init__(self) -> None:
        self.thread = threading.current_thread()
        self.bell = threading.Lock()
        self.bell.acquire()
        self.work: Work[Any] | None = None


def linger_seconds() -> float:
    """Tells how long an idle thread of ours may keep its connections."""
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
