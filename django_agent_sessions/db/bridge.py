"""Run the ORM from any thread, with or without a running event loop.

Three rules decide which connection a call uses:

1. *Join.* If a thread provably waits for this call and has an open transaction, the call runs
   inside that transaction: it sees its rows and is rolled back with it. This can be proved if

   * the calling thread itself has the transaction, also if it runs an event loop;
   * asgiref's ``async_to_sync`` blocks the thread, which then runs the call itself;
   * an SDK's sync-to-async bridge blocks the thread (adapters register theirs with
     :func:`register_waiting_call`).

   If it cannot be proved, the caller can declare it with :func:`joined`. A call that belongs to a
   run that has joined a transaction, and can neither be proved nor is declared, raises an error.
2. *Inline.* A thread without a running loop that has an open connection uses it.
3. *Own.* Every other call runs in one of our threads, on one of our connections, and commits
   at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ParamSpec, TypeVar

from asgiref.current_thread_executor import CurrentThreadExecutor
from django.apps import apps
from django.db import connections, router
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils.module_loading import import_string

from django_agent_sessions import conf
from django_agent_sessions.db.connection_state import (
    close_if_broken,
    require_commits,
    reset_lost_transaction,
)
from django_agent_sessions.db.futures import DatabaseFuture
from django_agent_sessions.db.groups import GroupedCall, run_together
from django_agent_sessions.db.transaction_join import (
    JoinableTransaction,
    declared_transaction,
    in_transaction,
    is_own_connection,
    join_transaction,
    refuse_green_threads,
    refuse_to_leave_joined,
    register_waiting_call,
    running_loop,
)
from django_agent_sessions.db.workers import PoolUsage, WorkerPool
from django_agent_sessions.exceptions import ConfigurationError

__all__ = [
    "arun_orm",
    "database",
    "joined",
    "refuse_green_threads",
    "register_waiting_call",
    "run_async",
    "run_orm",
    "run_sync",
]

P = ParamSpec("P")
R = TypeVar("R")

_UNBOUNDED = 10_000


def _run_together(using: str, works: Sequence[DatabaseFuture[Any]]) -> None:
    _on_own_connection(using, functools.partial(run_together, works))


# Reads of event streams have a thread of their own, so that no append waits behind them.
_reading_pool = WorkerPool(limit=lambda: 1)
_own_pool = WorkerPool(
    limit=lambda: conf.get_settings().MAX_CONNECTIONS - _reading_pool.size, together=_run_together
)
# Threads that use a caller's connection: one per waiting caller.
_borrowing_pool = WorkerPool(limit=lambda: _UNBOUNDED, patience=0)

_locks: weakref.WeakKeyDictionary[BaseDatabaseWrapper, threading.RLock] = (
    weakref.WeakKeyDictionary()
)
_locks_guard = threading.Lock()
# True in `.works` while this thread runs a call, so that a nested call does not wait for itself.
_own = threading.local()


def pool_usage() -> PoolUsage:
    """Return how busy this process's own threads are."""
    return _own_pool.usage()


def database(using: str | None = None) -> str:
    """Return the alias of the database of the sessions."""
    if using is not None:
        return using
    # The model by its label: this package knows no table.
    return conf.get_settings().DATABASE or router.db_for_write(
        apps.get_model("agent_sessions", "Session")
    )


def connection_setup() -> Callable[[BaseDatabaseWrapper], Any] | None:
    """Import the callable that ``CONNECTION_SETUP`` names."""
    path = conf.get_settings().CONNECTION_SETUP
    return None if path is None else _import_setup(path)


def _import_setup(path: str) -> Callable[[BaseDatabaseWrapper], Any]:
    try:
        candidate = import_string(path)
    except (ImportError, TypeError, ValueError) as error:
        # A path like ".tenants.as_tenant" raises one of the last two.
        raise ConfigurationError(
            f"AGENT_SESSIONS['CONNECTION_SETUP'] is {path!r}, which cannot be imported"
        ) from error
    if not callable(candidate):
        raise ConfigurationError(
            f"AGENT_SESSIONS['CONNECTION_SETUP'] is {path!r}, which is not callable"
        )
    setup: Callable[[BaseDatabaseWrapper], Any] = candidate
    return setup


def run_orm(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Run ORM code from sync code, such as an agent's tool.

    Also works in a thread with a running event loop, where Django raises
    ``SynchronousOnlyOperation``; the loop is blocked meanwhile. The function sees the uncommitted
    rows of a caller that provably waits, and leaves no connection open.

    Args:
        function: Sync code that uses the ORM. It must not wait for the event loop.
        *args: Positional arguments of the function.
        **kwargs: Keyword arguments of the function.

    Returns:
        The return value of the function.

    Raises:
        ConfigurationError: The agent's run is part of a transaction, and it cannot be proved that
            the transaction's thread waits for this call: use :func:`joined`. Or gevent or eventlet
            have replaced threads.
    """
    return run_sync(functools.partial(function, *args, **kwargs), using=database())


async def arun_orm(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Run ORM code from async code without blocking the event loop.

    Unlike ``sync_to_async``, it cannot deadlock with a thread that waits for this loop. Blocks
    cancellation until the function has returned, so that its outcome is known.

    Args:
        function: Sync code that uses the ORM. It must not wait for the event loop.
        *args: Positional arguments of the function.
        **kwargs: Keyword arguments of the function.

    Returns:
        The return value of the function.

    Raises:
        ConfigurationError: See :func:`run_orm`.
    """
    return await run_async(functools.partial(function, *args, **kwargs), using=database())


@contextmanager
def joined(using: str | None = None) -> Iterator[None]:
    """Let agents that are called in this block join the transaction of this thread.

    Needed where the bridge cannot prove that the thread waits, such as sync tools under
    ``Runner.run_sync``::

        with transaction.atomic(), joined():
            Runner.run_sync(agent, "Hello", session=DjangoSession("user-123"))

    In the block, this thread must do nothing but call agents. The end of the block waits for
    database calls that are running; later calls use a connection of their own.

    Args:
        using: The alias of the database, if it is not the configured one.

    Raises:
        ConfigurationError: An event loop runs in this thread, or it has no open transaction on
            this database.
    """
    if running_loop() is not None:
        raise ConfigurationError(
            "joined() cannot be used in a thread with a running event loop: call it from sync code"
        )
    connection = connections[database(using)]
    if not in_transaction(connection):
        raise ConfigurationError(
            f"joined() requires an open transaction on {connection.alias!r}: "
            "enter transaction.atomic() first"
        )
    caller = JoinableTransaction(connection, outer=declared_transaction.get())
    token = declared_transaction.set(caller)
    try:
        yield
    finally:
        declared_transaction.reset(token)
        with _lock_of(connection):
            caller.is_waiting = False


def run_sync(function: Callable[[], R], *, using: str) -> R:
    """Run a function and wait for it."""
    refuse_green_threads()
    looping = running_loop() is not None
    connection = connections[using]
    if not looping:
        reset_lost_transaction(connection)
    if not looping and (in_transaction(connection) or getattr(_own, "works", False)):
        return function()
    caller = join_transaction(using)
    with contextlib.suppress(_CallerGoneError):
        if isinstance(caller, CurrentThreadExecutor):
            return _outcome(_submit_to_caller(caller, function))
        if caller is not None:
            borrowing = functools.partial(_borrow, caller, function)
            return _wait(_borrowing_pool, borrowing) if looping else borrowing()
    refuse_to_leave_joined(using)
    if not looping and (connection.connection is not None or _is_private_memory(connection)):
        close_if_broken(connection)
        return function()
    setup = conf.get_settings().CONNECTION_SETUP
    return _wait(_own_pool, functools.partial(_on_own_connection, using, function, setup))


async def run_reading(function: Callable[[], R], *, using: str) -> R:
    """Run a function that only reads, as :func:`run_async` does, beside what others write."""
    has_room = _own_pool.size < conf.get_settings().MAX_CONNECTIONS
    is_alone = conf.get_settings().MAX_CONNECTIONS <= 1
    pool = _reading_pool if has_room and not is_alone else _own_pool
    return await run_async(function, using=using, pool=pool)


async def run_async(
    function: Callable[[], R],
    *,
    using: str,
    pool: WorkerPool = _own_pool,
    call: GroupedCall[R] | None = None,
) -> R:
    """Run a function without blocking the running event loop.

    With ``call``, which the function carries out alone, if possible together with others.
    The loop is blocked only if its own thread has the transaction: only that thread may use the
    connection. Cancellation is raised only after the function has returned.
    """
    refuse_green_threads()
    caller = join_transaction(using)
    with contextlib.suppress(_CallerGoneError):
        if isinstance(caller, CurrentThreadExecutor):
            return await _submit_to_caller(caller, function)
        if caller is not None:
            borrowing = functools.partial(_borrow, caller, function)
            if is_own_connection(caller.connection, using):
                return _wait(_borrowing_pool, borrowing)
            return await _arun(_borrowing_pool, borrowing)
    refuse_to_leave_joined(using)
    setup = conf.get_settings().CONNECTION_SETUP
    # A setup may depend on the context of a call, which the others do not share.
    grouped = call if setup is None else None
    own = functools.partial(_on_own_connection, using, function, setup)
    return await _arun(pool, own, grouped)


# --- running ---------------------------------------------------------------------------------


class _CallerGoneError(Exception):
    """The thread that has the transaction has stopped waiting."""


def _submit_to_caller(
    executor: CurrentThreadExecutor, function: Callable[[], R]
) -> DatabaseFuture[R]:
    work = DatabaseFuture(_in_context(function))
    try:
        executor.submit(work.run)
    except RuntimeError as error:
        raise _CallerGoneError from error
    return work


def _in_context(function: Callable[[], R]) -> Callable[[], R]:
    # Database routers, tenants and loggers read the caller's context.
    return functools.partial(contextvars.copy_context().run, function)


def _wait(pool: WorkerPool, function: Callable[[], R]) -> R:
    return _outcome(pool.submit(_in_context(function)), pool)


def _outcome(work: DatabaseFuture[R], pool: WorkerPool | None = None) -> R:
    """Wait for the outcome, even if a signal handler raises.

    The function may be using a connection of this thread, which must not be used by both.
    """
    try:
        if pool is not None and pool.grow_after and work.queued:
            while not work.wait(pool.grow_after) and pool.grow_if_waiting(work):
                pass
        work.wait()
    except BaseException:
        while not work.done():
            with contextlib.suppress(BaseException):
                work.wait()
        raise
    return work.result()


async def _arun(
    pool: WorkerPool,
    function: Callable[[], R],
    call: GroupedCall[R] | None = None,
) -> R:
    context = contextvars.copy_context() if call is None else call.context
    work = pool.submit(functools.partial(context.run, function), call)
    if not (work.queued and pool.grow_after):
        return await work
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle

    def grow() -> None:
        nonlocal timer
        if pool.grow_if_waiting(work):
            timer = loop.call_later(pool.grow_after, grow)

    timer = loop.call_later(pool.grow_after, grow)
    try:
        return await work
    finally:
        timer.cancel()


def _on_own_connection(using: str, function: Callable[[], R], path: str | None = None) -> R:
    """Run a function on this thread's connection, in what ``CONNECTION_SETUP`` returns for it."""
    # A tool's rows would be lost, too, and what only reads would leave a transaction open.
    require_commits(using)
    connection = connections[using]
    close_if_broken(connection)
    setup = None if path is None else _import_setup(path)
    _own.works = True
    try:
        with _require_context_manager(setup(connection)) if setup else contextlib.nullcontext():
            return function()
    finally:
        _own.works = False


def _require_context_manager(context: Any) -> AbstractContextManager[Any]:
    """Require a context manager: a generator function without its decorator returns none."""
    if not isinstance(context, AbstractContextManager):
        raise ConfigurationError(
            "AGENT_SESSIONS['CONNECTION_SETUP'] must return a context manager, not "
            f"{type(context).__name__}: add @contextmanager to a generator function"
        )
    return context


def _borrow(caller: JoinableTransaction, function: Callable[[], R]) -> R:
    """Run a function on the connection of a waiting thread, one function at a time."""
    connection = caller.connection
    alias = connection.alias
    with _lock_of(connection):
        if not (caller.is_waiting and in_transaction(connection)):
            raise _CallerGoneError
        # If this thread has no connection, Django creates an object, which opens nothing yet.
        own = connections[alias]
        connection.inc_thread_sharing()
        connections[alias] = connection
        try:
            return function()
        finally:
            connections[alias] = own
            connection.dec_thread_sharing()


def _lock_of(connection: BaseDatabaseWrapper) -> threading.RLock:
    with _locks_guard:
        return _locks.setdefault(connection, threading.RLock())


def _is_private_memory(connection: BaseDatabaseWrapper) -> bool:
    """Return whether the database exists in one connection only, as SQLite's ``:memory:`` does."""
    return connection.vendor == "sqlite" and connection.settings_dict["NAME"] == ":memory:"
