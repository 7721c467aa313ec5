"""Who lends a transaction: the proof that a thread waits for a piece of database work.

The proof is read off the stacks of the threads at the moment of the call. Nothing is carried in a
context variable except what :func:`~django_agent_sessions.bridge.joined` says, because a context
may be copied into a thread that outlives its transaction.
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

from . import stacks

_open_connections: weakref.WeakValueDictionary[tuple[int, str], BaseDatabaseWrapper] = (
    weakref.WeakValueDictionary()
)
_waiting_calls: dict[CodeType, str] = {}


@dataclass(eq=False)
class Lender:
    """A thread that waits, and whose connection may be used as long as it does."""

    connection: BaseDatabaseWrapper
    waits: bool = True
    outer: Lender | None = None


promised: contextvars.ContextVar[Lender | None] = contextvars.ContextVar(
    "agent_sessions_promised", default=None
)
"""Who said aloud that it waits."""


def register_waiting_call(code: CodeType, executor: str) -> None:
    """Teaches the bridge a function that blocks its thread until an executor's work is done.

    Args:
        code: The code object of the function.
        executor: The name of its local variable with the ``ThreadPoolExecutor`` that it certainly
            waits for; it must be bound once only.
    """
    _waiting_calls[code] = executor


def remember_connection(connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
    """Notes which thread opened a connection; a receiver of Django's ``connection_created``."""
    _open_connections[threading.get_ident(), connection.alias] = connection


def is_own(connection: BaseDatabaseWrapper, using: str) -> bool:
    """Tells whether this very thread opened a connection."""
    return connection is _open_connections.get((threading.get_ident(), using))


def find_lender(using: str) -> Lender | CurrentThreadExecutor | None:
    """Finds whose transaction this call belongs to."""
    said = promised.get()
    while said is not None:
        if said.waits and said.connection.alias == using:
            return said
        said = said.outer
    # References, because they are listed at once: other threads open connections meanwhile.
    opened = [reference() for reference in _open_connections.valuerefs()]
    if not any(
        connection is not None and connection.alias == using and in_transaction(connection)
        for connection in opened
    ):
        # Nobody has a transaction open: the common case looks at no stack.
        return None
    thread: int | None = threading.get_ident()
    seen: set[int] = set()
    while thread is not None:
        connection = _open_connections.get((thread, using))
        if connection is not None and in_transaction(connection):
            return Lender(connection)
        if (executor := _asgiref_lender(thread, using)) is not None:
            return executor
        seen.add(thread)
        thread = _waiter_of(thread, seen)
    return None


def _waiter_of(thread: int, seen: set[int]) -> int | None:
    """Finds the thread that provably waits for this one."""
    works_for = _executor_of(thread)
    if works_for is None:
        return None
    # A thread that waits is in a lock of the standard library, a few calls from the function.
    waiting = {
        other: executor
        for code, name in _waiting_calls.items()
        for other, executor in stacks.callers(code, name).items()
        if other not in seen
    }
    for ident, executor in waiting.items():
        if executor is works_for:
            return ident
    # A loop's default threads count with the loop's own, because asyncio.run joins them.
    if waiting and (loop_works_for := _executor_of_loop_with(works_for)) is not None:
        return next((i for i, executor in waiting.items() if executor is loop_works_for), None)
    return None


def _executor_of_loop_with(default_executor: object) -> object:
    for thread in stacks.threads():
        if getattr(_loop_in(thread), "_default_executor", None) is default_executor:
            return _executor_of(thread)
    return None


def _executor_of(thread: int) -> object:
    """Finds the executor that a thread works for.

    The executor lists its threads too, but a new thread may work before it is on the list.
    """
    for candidate in threading.enumerate():
        if candidate.ident == thread:
            # A thread that ends forgets both, one after the other.
            target = getattr(candidate, "_target", None)
            arguments = getattr(candidate, "_args", None)
            return arguments[0]() if target is _worker and arguments else None
    return None


def _asgiref_lender(thread: int, using: str) -> CurrentThreadExecutor | None:
    """Finds who waits in ``async_to_sync`` for the loop that runs in this thread."""
    here = thread == threading.get_ident()
    loop = running_loop() if here else _loop_in(thread)
    if loop is None:
        return None
    candidates = [AsyncToSync.loop_thread_executors.get(loop)]
    if here:
        # On a loop that many callers share, only the context tells whose call this is. It comes
        # first: where a thread waits twice, one within the other, only the inner one is served.
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
        for current_executor, main_event_loop in stacks.variables(
            thread, AsyncToSync.__call__.__code__, "current_executor", "main_event_loop"
        )
    )


def _loop_in(thread: int) -> asyncio.AbstractEventLoop | None:
    for (loop,) in stacks.variables(thread, asyncio.BaseEventLoop.run_forever.__code__, "self"):
        return loop  # type: ignore[no-any-return]  # a variable read off a stack has no type
    return None


def in_transaction(connection: BaseDatabaseWrapper) -> bool:
    """Tells whether a connection has a transaction open."""
    return connection.connection is not None and (
        connection.in_atomic_block or not connection.autocommit
    )


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Finds the event loop that runs in this thread."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
