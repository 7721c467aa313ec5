"""Find the transaction that a database call may join: the proof that its thread waits.

There are three proofs: this thread has the transaction itself, or the thread that has it waits in
asgiref's ``async_to_sync`` for the loop that runs here, or in the bridge of an SDK for this thread.
They are read off the stacks of the two threads at the time of the call. A context variable would
not do, because a context may be copied into a thread that outlives the transaction. Context
variables are used only for :func:`~django_agent_sessions.db.bridge.joined`, and to raise instead of
leaving the transaction of a run's caller where nothing can be proved.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import sys
import threading
import weakref
from collections.abc import Collection, Iterable
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
_waiting_calls: list[tuple[CodeType, CodeType, str]] = []
"""Functions that block their thread, their inner functions that it waits for, and a variable that
both have."""


@dataclass(eq=False)
class JoinableTransaction:
    """A waiting thread's connection, which other threads may use while ``is_waiting`` is true."""

    connection: BaseDatabaseWrapper
    is_waiting: bool = True
    outer: JoinableTransaction | None = None


declared_transaction: contextvars.ContextVar[JoinableTransaction | None] = contextvars.ContextVar(
    "agent_sessions_declared", default=None
)
"""The transaction of the innermost ``joined()`` block."""


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


def join_transaction(using: str) -> JoinableTransaction | CurrentThreadExecutor | None:
    """Find the transaction that this call belongs to; None if there is none.

    Returns an executor if the waiting thread must run the call itself. This context, which a run's
    tools inherit, records which transaction the run is part of.
    """
    declared = declared_transaction.get()
    while declared is not None:
        if declared.is_waiting and declared.connection.alias == using:
            if declared is not declared_transaction.get():
                _joined_transaction.set(_JoinedTransaction.of(declared.connection))
            return declared
        declared = declared.outer
    transactions = _open_transactions(using)
    # Usually there is none, and no stack needs to be read.
    found = _provable_transaction(transactions) if transactions else None
    if isinstance(found, JoinableTransaction):
        _joined_transaction.set(_JoinedTransaction.of(found.connection))
    elif found is not None and (connection := transactions.get(_work_thread(found))) is not None:
        _joined_transaction.set(_JoinedTransaction.of(connection))
    return found


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


def register_waiting_call(code: CodeType, shared: str) -> None:
    """Register a function that blocks its thread until an inner function has run in another one.

    Args:
        code: The code object of the function.
        shared: The name of a local variable of the function that its inner function uses, with
            another object in each call. It must be assigned only once.
    """
    constants = [each for each in code.co_consts if isinstance(each, CodeType)]
    inner = [each for each in constants if shared in each.co_freevars]
    _waiting_calls.extend((code, each, shared) for each in inner)
    if not inner:
        logger.error("%s has no inner function that uses %r", code.co_qualname, shared)


def remember_thread_connection(connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
    """Record which thread opened a connection; a receiver of Django's ``connection_created``."""
    _open_connections[threading.get_ident(), connection.alias] = connection


def is_own_connection(connection: BaseDatabaseWrapper, using: str) -> bool:
    """Return whether this thread opened the connection."""
    return connection is _open_connections.get((threading.get_ident(), using))


def _provable_transaction(
    transactions: dict[int, BaseDatabaseWrapper],
) -> JoinableTransaction | CurrentThreadExecutor | None:
    if (own := transactions.get(threading.get_ident())) is not None:
        return JoinableTransaction(own)
    if (executor := _asgiref_executor(transactions)) is not None:
        return executor
    waiting = _thread_in_bridge(transactions)
    return None if waiting is None else JoinableTransaction(transactions[waiting])


def _open_transactions(using: str) -> dict[int, BaseDatabaseWrapper]:
    """Return the connections with an open transaction, by the threads that opened them."""
    found: dict[int, BaseDatabaseWrapper] = {}
    # valuerefs() is atomic: other threads open connections meanwhile.
    for reference in _open_connections.valuerefs():
        connection = reference()
        if connection is not None and connection.alias == using and in_transaction(connection):
            found[reference.key[0]] = connection
    return found


def _thread_in_bridge(threads: Iterable[int]) -> int | None:
    """Return the thread that waits for this one in a bridge of an SDK; None if none does."""
    for waiting, inner, shared in _waiting_calls:
        # The same object in both threads: this one runs what the other one waits for.
        own = thread_frames.local_variables(threading.get_ident(), inner, shared)
        for thread in threads if own else ():
            for value in thread_frames.local_variables(thread, waiting, shared):
                if value is own[0]:
                    return thread
    return None


def _asgiref_executor(threads: Collection[int]) -> CurrentThreadExecutor | None:
    """Return that of the thread that waits in ``async_to_sync`` for the loop of this thread."""
    loop = running_loop()
    if loop is None:
        return None
    # On a loop that many callers share, only the context identifies the caller. It comes first: of
    # two nested calls of a thread, only the inner one runs submitted functions.
    current: CurrentThreadExecutor | None = getattr(AsyncToSync.executors, "current", None)
    for executor in filter(None, (current, AsyncToSync.loop_thread_executors.get(loop))):
        thread = _work_thread(executor)
        if thread in threads and _waits_in_async_to_sync(thread, executor, loop):
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
