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
import select
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from django.core import mail
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

PATIENCE = 0.1
"""Seconds that work waits for a busy thread before another thread is started."""

LINGER = 0.4
"""Seconds that an idle thread keeps its connections where ``CONN_MAX_AGE`` is 0."""


_of_workers: weakref.WeakSet[BaseDatabaseWrapper] = weakref.WeakSet()
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
        _of_workers.add(connection)


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
    _kept.extend(_of_workers)


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
        self._changed = threading.Condition()
        self._waiting: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        self._closed = False

    @property
    def patience(self) -> float:
        """Seconds after which a waiting caller should call :meth:`nudge`."""
        return self._patience

    def submit(self, function: Callable[[], Any]) -> Future[Any]:
        """Queues a function.

        Args:
            function: Called without arguments in one of the threads.

        Returns:
            The future of its result.

        Raises:
            RuntimeError: The interpreter is shutting down, or can start no thread.
        """
        future: Future[Any] = Future()
        with self._changed:
            if self._closed:
                raise RuntimeError("cannot do database work while the interpreter shuts down")
            self._waiting.append((function, future))
            try:
                if not self._threads or (self._patience == 0 and self._idle < len(self._waiting)):
                    self._start()
                else:
                    self._changed.notify()
            except RuntimeError:
                # The system has no more threads. What is refused must not be done later.
                if not self._threads:
                    self._waiting.pop()
                    raise
        return future

    def nudge(self, future: Future[Any]) -> None:
        """Starts one more thread if this work still waits and there may be one more.

        Args:
            future: What :meth:`submit` returned.
        """
        with self._changed:
            if not self._idle and any(waiting is future for _, waiting in self._waiting):
                self._start()

    def close(self) -> None:
        """Finishes what is queued, closes all connections and ends all threads."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            threads = list(self._threads)
        for thread in threads:
            thread.join()

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
            while (job := self._next()) is not None:
                _run(*job)
                # Nothing of the caller's may live on in an idle thread.
                del job
        finally:
            with self._changed:
                self._threads.discard(threading.current_thread())
            connections.close_all()

    def _next(self) -> tuple[Callable[[], Any], Future[Any]] | None:
        with self._changed:
            deadline = None
            while not self._waiting:
                if deadline is None:
                    deadline = time.monotonic() + linger_seconds()
                remaining = deadline - time.monotonic()
                if self._closed or remaining <= 0:
                    self._threads.discard(threading.current_thread())
                    return None
                self._idle += 1
                try:
                    self._changed.wait(remaining)
                finally:
                    self._idle -= 1
            return self._waiting.popleft()


def _run(function: Callable[[], Any], future: Future[Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = function()
    except BaseException as error:
        tidy_connections()
        future.set_exception(error)
    else:
        tidy_connections()
        future.set_result(result)


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
        connection.close()
