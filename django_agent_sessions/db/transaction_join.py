"""Find the transaction that a database call may join: the proof that its thread waits.

The proof is read off the stacks of the threads at the time of the call. A context variable would
not do, because a context may be copied into a thread that outlives the transaction. Context
variables are used only for :func:`~django_agent_sessions.db.bridge.joined`, and to raise instead of
leaving the transaction of a run's caller where nothing can be proved.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import logging
import sys
import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor
from concurrent.futures.thread import _worker
from dataclasses import dataclass
from types import CodeType
from typing import Any

from asgiref.current_thread_executor import CurrentThreadExecutor
from asgiref.sync import AsyncToSync
from django.db.backends.base.base import BaseDatabaseWrapper

from django_agent_sessions.db import thread_frames
from django_agent_sessions.exceptions import ConfigurationError

logger = logging.getLogger("django_agent_sessions")

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
    executors: Sequence[Executor] = ()
    """The thread waits only for these; a call must occupy them while it uses the connection."""


declared_transaction: contextvars.ContextVar[JoinableTransaction | None] = contextvars.ContextVar(
    "agent_sessions_promised", default=None
)
"""The connection of the innermost ``joined()`` block."""


@dataclass(frozen=True)
class _JoinedTransaction:
    """A transaction that calls of this context have joined."""

    connection: weakref.ref[BaseDatabaseWrapper]
    block: object

    @classmethod
    def of(cls, connection: BaseDatabaseWrapper) -> _JoinedTransaction:
        blocks = connection.atomic_blocks
        return cls(weakref.ref(connection), blocks[0] if blocks else None)

    def is_open(self, using: str) -> bool:
        connection = self.connection()
        return (
            connection is not None
            and connection.alias == using
            and in_transaction(connection)
            and self == self.of(connection)
        )


_joined_transaction: contextvars.ContextVar[_JoinedTransaction | None] = contextvars.ContextVar(
    "agent_sessions_joined", default=None
)


def remember_joined(lender: JoinableTransaction | CurrentThreadExecutor, using: str) -> None:
    """Record in this context, which a run's tools inherit, which transaction the run is part of."""
    if isinstance(lender, JoinableTransaction):
        _joined_transaction.set(_JoinedTransaction.of(lender.connection))
    elif (connection := _open_connections.get((_work_thread(lender), using))) is not None:
        _joined_transaction.set(_JoinedTransaction.of(connection))


def refuse_green_threads() -> None:
    """Raise an error in a process in which gevent or eventlet have replaced threads.

    Event loops of several of its greenlets would be in each other's way, in the single thread of
    the process, and wait for ever, each with a connection.
    """
    gevent, eventlet = map(sys.modules.get, ("gevent.monkey", "eventlet.patcher"))
    if gevent is not None and gevent.is_module_patched("threading"):
        name = "gevent"
    elif eventlet is not None and eventlet.is_monkey_patched("thread"):
        name = "eventlet"
    else:
        return
    raise ConfigurationError(
        f"{name} has replaced the threads of this process, and agents need real ones: run it with "
        "threads or processes instead (gunicorn --worker-class gthread, celery --pool threads or "
        "prefork, or an ASGI server)"
    )


def refuse_to_leave_joined(using: str) -> None:
    """Raise an error if this call belongs to a run that is part of a transaction."""
    joined_transaction = _joined_transaction.get()
    if joined_transaction is not None and joined_transaction.is_open(using):
        error = ConfigurationError(
            f"the caller of this run has an open transaction on {using!r}, but it cannot be proved "
            "that its thread waits for this call, which would survive a rollback. Call the agent "
            "in `with transaction.atomic(), joined():` (django_agent_sessions.db.bridge.joined), "
            "use async tools with arun_orm, or call the agent outside the transaction"
        )
        # Also logged, because SDKs hide the error of a tool in a message to the model.
        logger.error("%s", error)
        raise error


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
    executors: list[Executor] = []
    while thread is not None:
        connection = _open_connections.get((thread, using))
        if connection is not None and in_transaction(connection):
            return JoinableTransaction(connection, executors=executors)
        if (lender := _asgiref_lender(thread, using)) is not None:
            return lender
        seen.add(thread)
        thread = _waiter_of(thread, seen, executors)
    return None


def _waiter_of(thread: int, seen: set[int], executors: list[Executor]) -> int | None:
    """Find the thread that provably waits for this one.

    Adds the executor that it waits for if it waits for this thread only while this occupies it.
    """
    own_executor = _executor_of(thread)
    if own_executor is None:
        return None
    waiting = {
        executor: other
        for code, name in _waiting_calls.items()
        for other, executor in thread_frames.waiting_threads(code, name).items()
        if other not in seen
    }
    if own_executor in waiting:
        return waiting[own_executor]
    others = [other for other in thread_frames.thread_ids() if other not in seen]
    for other in others:
        if _has_default_executor(_loops_of_asyncio_run(other), own_executor):
            return other
    # nest_asyncio replaces asyncio.run by a function that does not wait for default threads.
    for other in others if waiting else ():
        executor = _executor_of(other)
        if executor in waiting and _has_default_executor(_python_loops(other), own_executor):
            executors.append(executor)
            return waiting[executor]
    return None


def _loops_of_asyncio_run(thread: int) -> Iterator[asyncio.AbstractEventLoop]:
    """Iterate over the loops of ``asyncio.run``, which waits for its loop's default threads.

    Loops written in C, such as uvloop's, have no Python frame of their own.
    """
    for (runner,) in thread_frames.local_variables(thread, asyncio.runners.run.__code__, "runner"):
        loop = getattr(runner, "_loop", None)
        if loop is not None:
            yield loop


def _python_loops(thread: int) -> Iterator[asyncio.AbstractEventLoop]:
    """Iterate over the loops of a thread. nest_asyncio replaces the method of the class."""
    code = asyncio.SelectorEventLoop.run_until_complete.__code__
    for (loop,) in thread_frames.local_variables(thread, code, "self"):
        yield loop


def _has_default_executor(loops: Iterable[asyncio.AbstractEventLoop], executor: Executor) -> bool:
    for loop in loops:
        # uvloop's attributes are C. In one expression, which keeps no reference to one of them.
        if (
            loop._default_executor is executor
            if hasattr(loop, "_default_executor")
            else id(executor) in map(id, gc.get_referents(loop))
        ):
            return True
    return False


def _executor_of(thread: int) -> Any:
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
    loop = running_loop() if here else next(_loops_of_asyncio_run(thread), None)
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
        waiting = _work_thread(executor)
        connection = _open_connections.get((waiting, using))
        if (
            connection is not None
            and in_transaction(connection)
            and _waits_in_async_to_sync(waiting, executor, loop)
        ):
            return executor
    return None


def _work_thread(executor: CurrentThreadExecutor) -> int:
    return getattr(getattr(executor, "_work_thread", None), "ident", None) or 0


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
