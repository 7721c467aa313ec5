"""Find the transaction that a database call may join: the proof that its thread waits.

The proof is read off the stacks of the threads at the time of the call. A context variable would
not do, because a context may be copied into a thread that outlives the transaction; it is used
only for :func:`~django_agent_sessions.db.bridge.joined`.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import weakref
from concurrent.futures.thread import _worker
from dataclasses import dataclass
from types import CodeType
from typing import Any

from asgiref.current_thread_executor import CurrentThreadExecutor
from asgiref.sync import AsyncToSync
from django.db.backends.base.base import BaseDatabaseWrapper

from django_agent_sessions.db import thread_frames

_open_connections: weakref.WeakValueDictionary[tuple[int, str], BaseDatabaseWrapper] = (
    weakref.WeakValueDictionary()
)
_waiting_calls: dict[CodeType, str] = {}


@dataclass(eq=False)
class JoinableTransaction:
    """A waiting thread's connection, which other threads may use while ``is_waiting`` is true."""

    connection: BaseDatabaseWrapper
    is_waiting: bool = True
    outer: JoinableTransaction | None = None


declared_transaction: contextvars.ContextVar[JoinableTransaction | None] = contextvars.ContextVar(
    "agent_sessions_promised", default=None
)
"""The connection of the innermost ``joined()`` block."""


def register_waiting_call(code: CodeType, executor: str) -> None:
    """Register a function that blocks its thread until an executor's call has finished.

    Args:
        code: The code object of the function.
        executor: The name of the local variable that contains the ``ThreadPoolExecutor`` that the
            function always waits for. It must be assigned only once.
    """
    _waiting_calls[code] = executor


def remember_thread_connection(connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
    """Record which thread opened a connection; a receiver of Django's ``connection_created``."""
    _open_connections[threading.get_ident(), connection.alias] = connection


def is_own_connection(connection: BaseDatabaseWrapper, using: str) -> bool:
    """Return whether this thread opened the connection."""
    return connection is _open_connections.get((threading.get_ident(), using))


def find_joinable_transaction(using: str) -> JoinableTransaction | CurrentThreadExecutor | None:
    """Find the transaction that this call belongs to; None if there is none.

    Returns an executor if the waiting thread must run the call itself.
    """
    declared = declared_transaction.get()
    while declared is not None:
        if declared.is_waiting and declared.connection.alias == using:
            return declared
        declared = declared.outer
    # valuerefs() is atomic: other threads open connections meanwhile.
    opened = [reference() for reference in _open_connections.valuerefs()]
    if not any(
        connection is not None and connection.alias == using and in_transaction(connection)
        for connection in opened
    ):
        # No transaction is open: the usual case, which needs no stack to be read.
        return None
    thread: int | None = threading.get_ident()
    seen: set[int] = set()
    while thread is not None:
        connection = _open_connections.get((thread, using))
        if connection is not None and in_transaction(connection):
            return JoinableTransaction(connection)
        if (executor := _asgiref_lender(thread, using)) is not None:
            return executor
        seen.add(thread)
        thread = _waiter_of(thread, seen)
    return None


def _waiter_of(thread: int, seen: set[int]) -> int | None:
    """Find the thread that provably waits for this one."""
    own_executor = _executor_of(thread)
    if own_executor is None:
        return None
    # A waiting thread is in a lock of the standard library, a few frames below the function.
    waiting = {
        other: executor
        for code, name in _waiting_calls.items()
        for other, executor in thread_frames.waiting_threads(code, name).items()
        if other not in seen
    }
    for ident, executor in waiting.items():
        if executor is own_executor:
            return ident
    # A loop's default threads count as the loop's own thread, because asyncio.run joins them.
    if waiting and (loop_executor := _executor_of_loop_with(own_executor)) is not None:
        return next((i for i, executor in waiting.items() if executor is loop_executor), None)
    return None


def _executor_of_loop_with(default_executor: object) -> object:
    for thread in thread_frames.thread_ids():
        if getattr(_loop_in(thread), "_default_executor", None) is default_executor:
            return _executor_of(thread)
    return None


def _executor_of(thread: int) -> object:
    """Find the executor that a thread works for.

    The executor has a list of its threads, but a new thread may run before it is added.
    """
    for candidate in threading.enumerate():
        if candidate.ident == thread:
            # A thread that ends deletes both attributes, one after the other.
            target = getattr(candidate, "_target", None)
            arguments = getattr(candidate, "_args", None)
            return arguments[0]() if target is _worker and arguments else None
    return None


def _asgiref_lender(thread: int, using: str) -> CurrentThreadExecutor | None:
    """Find the thread that waits in ``async_to_sync`` for the loop that runs in this thread."""
    here = thread == threading.get_ident()
    loop = running_loop() if here else _loop_in(thread)
    if loop is None:
        return None
    candidates = [AsyncToSync.loop_thread_executors.get(loop)]
    if here:
        # On a loop that many callers share, only the context identifies the caller. It comes
        # first: of two nested calls of a thread, only the inner one runs submitted functions.
        candidates.insert(0, getattr(AsyncToSync.executors, "current", None))
    for executor in candidates:
        if executor is None:
            continue
        waiting = getattr(getattr(executor, "_work_thread", None), "ident", 0)
        connection = _open_connections.get((waiting, using))
        if (
            connection is not None
            and in_transaction(connection)
            and _waits_in_async_to_sync(waiting, executor, loop)
        ):
            return executor
    return None


def _waits_in_async_to_sync(
    thread: int, executor: CurrentThreadExecutor, loop: asyncio.AbstractEventLoop
) -> bool:
    own_loop = AsyncToSync.loop_thread_executors.get(loop) is executor
    return any(
        current_executor is executor and (own_loop or main_event_loop is loop)
        for current_executor, main_event_loop in thread_frames.local_variables(
            thread, AsyncToSync.__call__.__code__, "current_executor", "main_event_loop"
        )
    )


def _loop_in(thread: int) -> asyncio.AbstractEventLoop | None:
    for (loop,) in thread_frames.local_variables(
        thread, asyncio.BaseEventLoop.run_forever.__code__, "self"
    ):
        return loop  # type: ignore[no-any-return]  # a variable read off a stack has no type
    return None


def in_transaction(connection: BaseDatabaseWrapper) -> bool:
    """Return whether a connection has an open transaction."""
    return connection.connection is not None and (
        connection.in_atomic_block or not connection.autocommit
    )


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop that runs in this thread."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
