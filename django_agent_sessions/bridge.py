"""Running the ORM from anywhere: any thread, with or without a running event loop.

Three rules decide on which connection a piece of database work runs.

1. *Join.* If some thread provably waits for this very call and has a transaction open, the work
   runs inside that transaction: visible there, gone with its rollback. That is provable where

   * the calling thread itself has the transaction;
   * the event loop's own thread has it (it waits for its loop);
   * an SDK's bridge from sync to async blocks the thread (adapters register theirs with
     :func:`register_waiting_call`), also for tools that this loop runs in its default threads;
   * asgiref's ``async_to_sync`` blocks the thread, which then does the work itself.

   Where it cannot be proved, :func:`joined` says it aloud.
2. *Inline.* A thread without a running loop that has a connection open uses it.
3. *Own.* All else runs in a thread of ours, on a connection of ours, and commits at once.

Nothing here is carried in a context variable except what :func:`joined` says, because a context
may be copied into a thread that outlives its transaction.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from concurrent.futures.thread import _worker
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any, ParamSpec, TypeVar

from asgiref.current_thread_executor import CurrentThreadExecutor
from asgiref.sync import AsyncToSync
from django.db import connections, router
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils.module_loading import import_string

from . import conf
from .exceptions import ConfigurationError
from .workers import WorkerPool, refresh

P = ParamSpec("P")
R = TypeVar("R")

_UNBOUNDED = 10_000

_own_pool = WorkerPool(limit=lambda: conf.get_settings().MAX_CONNECTIONS)
# Threads that borrow a caller's connection: as many as callers wait, each for its own.
_borrowing_pool = WorkerPool(limit=lambda: _UNBOUNDED, patience=0)

_open_connections: weakref.WeakValueDictionary[tuple[int, str], BaseDatabaseWrapper] = (
    weakref.WeakValueDictionary()
)
_locks: weakref.WeakKeyDictionary[BaseDatabaseWrapper, threading.RLock] = (
    weakref.WeakKeyDictionary()
)
_locks_guard = threading.Lock()
# Work that asks for more work must not queue behind itself.
_own = threading.local()
_waiting_calls: dict[CodeType, Callable[[FrameType], object]] = {}


@dataclass(eq=False)
class _Lender:
    """A thread that waits, and whose connection may be used as long as it does."""

    connection: BaseDatabaseWrapper
    waits: bool = True
    outer: _Lender | None = None


_promised: contextvars.ContextVar[_Lender | None] = contextvars.ContextVar(
    "agent_sessions_promised", default=None
)


def database(using: str | None = None) -> str:
    """Tells which database the sessions are in.

    Args:
        using: An alias that overrules the settings.

    Returns:
        ``using``, else ``AGENT_SESSIONS["DATABASE"]``, else what the routers answer.
    """
    if using is not None:
        return using
    from .models import Session

    return conf.get_settings().DATABASE or router.db_for_write(Session)


def run_orm(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Runs ORM code from an agent's tool, or from any other sync code.

    It works in a thread with a running event loop too, where Django refuses the ORM; the loop
    then waits. The function sees the caller's uncommitted rows where the caller provably waits,
    and never leaves a connection behind.

    Args:
        function: Sync code that uses the ORM. It must not wait for the event loop.
        *args: Its arguments.
        **kwargs: Its keyword arguments.

    Returns:
        What the function returns.
    """
    return run_sync(functools.partial(function, *args, **kwargs), using=database())


async def arun_orm(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Runs ORM code from async code, without blocking the event loop.

    Unlike ``sync_to_async``, it cannot deadlock with a thread that waits for this loop. A
    cancellation waits until the function is done, so that its outcome is never in doubt.

    Args:
        function: Sync code that uses the ORM. It must not wait for the event loop.
        *args: Its arguments.
        **kwargs: Its keyword arguments.

    Returns:
        What the function returns.
    """
    return await run_async(functools.partial(function, *args, **kwargs), using=database())


@contextmanager
def joined(using: str | None = None) -> Iterator[None]:
    """Says that this thread waits, so that agents called here join its transaction.

    It is needed where no proof is possible, such as sync tools under ``Runner.run_sync``::

        with transaction.atomic(), joined():
            Runner.run_sync(agent, "Hello", session=DjangoSession("user-123"))

    Until the block ends, this thread must do nothing but call agents. At the end it waits for
    database work that is under way; what comes later runs on a connection of its own.

    Args:
        using: The alias of the database, if it is not the configured one.

    Raises:
        ConfigurationError: An event loop runs in this thread, so it does not wait; or it has no
            transaction open on this database, so that there is nothing to join.
    """
    if _running_loop() is not None:
        raise ConfigurationError("joined() is for a thread that waits, and here runs a loop")
    connection = connections[database(using)]
    if not _in_transaction(connection):
        raise ConfigurationError(
            f"joined() found no open transaction on {connection.alias!r}: "
            "enter transaction.atomic() first"
        )
    lender = _Lender(connection, outer=_promised.get())
    token = _promised.set(lender)
    try:
        yield
    finally:
        _promised.reset(token)
        with _lock_of(connection):
            lender.waits = False


def run_sync(function: Callable[[], R], *, using: str) -> R:
    """Runs ORM code and waits for it, wherever this is called.

    Args:
        function: Sync code that uses the ORM on the database ``using``.
        using: The alias of the database.

    Returns:
        What the function returns.
    """
    looping = _running_loop() is not None
    connection = connections[using]
    if not looping and (_in_transaction(connection) or getattr(_own, "works", False)):
        return function()
    lender = _find_lender(using)
    with contextlib.suppress(_LenderGoneError):
        if isinstance(lender, CurrentThreadExecutor):
            return _outcome(_submit_to_lender(lender, function))
        if lender is not None:
            borrowing = functools.partial(_borrow, lender, function)
            return _wait(_borrowing_pool, borrowing) if looping else borrowing()
    if not looping and (connection.connection is not None or _is_private_memory(connection)):
        refresh(connection)
        return function()
    return _wait(_own_pool, functools.partial(_on_own_connection, using, function))


async def run_async(function: Callable[[], R], *, using: str) -> R:
    """Runs ORM code from a running event loop, which goes on meanwhile.

    Only where the loop's own thread has a transaction open does the loop wait: its connection
    belongs to that thread.

    Args:
        function: Sync code that uses the ORM on the database ``using``.
        using: The alias of the database.

    Returns:
        What the function returns.

    Raises:
        asyncio.CancelledError: The caller was cancelled; the function has run to its end.
    """
    lender = _find_lender(using)
    with contextlib.suppress(_LenderGoneError):
        if isinstance(lender, CurrentThreadExecutor):
            return await _settle(_submit_to_lender(lender, function))
        if lender is not None:
            borrowing = functools.partial(_borrow, lender, function)
            if lender.connection is _open_connections.get((threading.get_ident(), using)):
                return _wait(_borrowing_pool, borrowing)
            return await _settle(_submit(_borrowing_pool, borrowing))
    future = _submit(_own_pool, functools.partial(_on_own_connection, using, function))
    timer = asyncio.get_running_loop().call_later(_own_pool.patience, _own_pool.nudge, future)
    try:
        return await _settle(future)
    finally:
        timer.cancel()


def register_waiting_call(code: CodeType, executor: Callable[[FrameType], object]) -> None:
    """Teaches the bridge a function that blocks its thread until an executor's work is done.

    Args:
        code: The code object of the function.
        executor: Takes a frame of that function and returns the ``ThreadPoolExecutor`` that it
            certainly waits for, or None.
    """
    _waiting_calls[code] = executor


def remember_connection(connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
    """Notes which thread opened a connection; a receiver of Django's ``connection_created``.

    Args:
        connection: The connection that was just opened.
        **kwargs: The rest of the signal.
    """
    _open_connections[threading.get_ident(), connection.alias] = connection


# --- who lends a transaction -----------------------------------------------------------------


def _find_lender(using: str) -> _Lender | CurrentThreadExecutor | None:
    """Finds whose transaction this call belongs to.

    Returns:
        A waiting thread's connection, or the executor through which a waiting thread does the
        work itself; None if the call belongs to no transaction.
    """
    promised = _promised.get()
    while promised is not None:
        if promised.waits and promised.connection.alias == using:
            return promised
        promised = promised.outer
    if not any(
        alias == using and _in_transaction(connection)
        for (_, alias), connection in list(_open_connections.items())
    ):
        # Nobody has a transaction open: the common case looks at no stack.
        return None
    thread: int | None = threading.get_ident()
    seen: set[int] = set()
    while thread is not None:
        connection = _open_connections.get((thread, using))
        if connection is not None and _in_transaction(connection):
            return _Lender(connection)
        if (executor := _asgiref_lender(thread, using)) is not None:
            return executor
        seen.add(thread)
        thread = _waiter_of(thread, seen)
    return None


# A frame that is held keeps its variables alive, and whoever drops it finalizes them: in another
# thread than their own, where mysqlclient locks a connection that its thread is using. So no frame
# of another thread is held for longer than a look takes.


def _frame_of(thread: int) -> FrameType | None:
    return sys._getframe() if thread == threading.get_ident() else sys._current_frames().get(thread)


def _waiter_of(thread: int, seen: set[int]) -> int | None:
    """Finds the thread that provably waits for this one."""
    works_for = _executor_of(_frame_of(thread))
    if works_for is None:
        return None
    waiting = {
        ident: executor
        for ident, frame in sys._current_frames().items()
        if ident not in seen and (executor := _waited_for_by(frame)) is not None
    }
    for ident, executor in waiting.items():
        if executor is works_for:
            return ident
    # A loop's default threads count with the loop's own, because asyncio.run joins them.
    if waiting and (loop_works_for := _executor_of_loop_with(works_for)) is not None:
        return next((i for i, executor in waiting.items() if executor is loop_works_for), None)
    return None


def _executor_of_loop_with(default_executor: object) -> object:
    for frame in sys._current_frames().values():
        if getattr(_loop_in(frame), "_default_executor", None) is default_executor:
            return _executor_of(frame)
    return None


def _waited_for_by(frame: FrameType) -> object:
    """Tells which executor the thread with this innermost frame waits for, if it provably does."""
    # A thread that waits is in a lock of the standard library, a few frames from the call.
    for candidate in _callers(frame, 10):
        executor = _waiting_calls.get(candidate.f_code)
        if executor is not None:
            return executor(candidate)
    return None


def _executor_of(frame: FrameType | None) -> object:
    """Finds the executor that a thread works for.

    The executor lists its threads too, but a new thread may work before it is on the list.
    """
    for caller in _callers(frame):
        if caller.f_code is _worker.__code__:
            reference = caller.f_locals["executor_reference"]
            return reference()
    return None


def _asgiref_lender(thread: int, using: str) -> CurrentThreadExecutor | None:
    """Finds who waits in ``async_to_sync`` for the loop that runs in this thread."""
    here = thread == threading.get_ident()
    loop = _running_loop() if here else _loop_in(_frame_of(thread))
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
            and _in_transaction(connection)
            and _waits_in_async_to_sync(_frame_of(waiting), executor, loop)
        ):
            return executor
    return None


def _waits_in_async_to_sync(
    frame: FrameType | None, executor: CurrentThreadExecutor, loop: asyncio.AbstractEventLoop
) -> bool:
    for caller in _callers(frame):
        if (
            caller.f_code is AsyncToSync.__call__.__code__
            and caller.f_locals.get("current_executor") is executor
        ):
            own_loop = AsyncToSync.loop_thread_executors.get(loop) is executor
            return own_loop or caller.f_locals.get("main_event_loop") is loop
    return False


def _loop_in(frame: FrameType | None) -> asyncio.AbstractEventLoop | None:
    for caller in _callers(frame):
        if caller.f_code is asyncio.BaseEventLoop.run_forever.__code__:
            loop: asyncio.AbstractEventLoop = caller.f_locals["self"]
            return loop
    return None


def _callers(frame: FrameType | None, most: int = 1_000) -> Iterator[FrameType]:
    while frame is not None and most:
        yield frame
        frame = frame.f_back
        most -= 1


# --- running ---------------------------------------------------------------------------------


class _LenderGoneError(Exception):
    """The thread whose transaction this was has stopped waiting."""


def _submit_to_lender(executor: CurrentThreadExecutor, function: Callable[[], R]) -> Future[R]:
    context = contextvars.copy_context()
    try:
        return executor.submit(context.run, _stoppable, function)
    except RuntimeError as error:
        raise _LenderGoneError from error


def _submit(pool: WorkerPool, function: Callable[[], R]) -> Future[R]:
    # Database routers, tenants and loggers read the caller's context.
    return pool.submit(functools.partial(contextvars.copy_context().run, _stoppable, function))


def _stoppable(function: Callable[[], R]) -> R:
    """Calls a function whose result becomes a future's, which can hold any error but this one."""
    try:
        return function()
    except StopIteration as error:
        raise RuntimeError("database work raised StopIteration") from error


def _wait(pool: WorkerPool, function: Callable[[], R]) -> R:
    return _outcome(_submit(pool, function), pool)


def _outcome(future: Future[R], pool: WorkerPool | None = None) -> R:
    """Waits for a future, whatever a signal handler raises meanwhile.

    The work may use a connection of this very thread, which must not go on before it is over.
    """
    try:
        if pool is not None and pool.patience:
            wait([future], timeout=pool.patience)
            pool.nudge(future)
        return future.result()
    except BaseException:
        while not future.done():
            with contextlib.suppress(BaseException):
                wait([future])
        raise


async def _settle(future: Future[R]) -> R:
    """Awaits a future; a cancellation is passed on only when the outcome is there."""
    loop = asyncio.get_running_loop()
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        # Not asyncio.wrap_future, which would pass the cancellation on, and takes longer.
        arrived = loop.create_future()
        future.add_done_callback(functools.partial(_announce, loop, arrived))
        try:
            await arrived
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return future.result()


def _announce(
    loop: asyncio.AbstractEventLoop, arrived: asyncio.Future[None], future: Future[Any]
) -> None:
    # A loop that was closed meanwhile has nobody left to tell.
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(_arrive, arrived)


def _arrive(arrived: asyncio.Future[None]) -> None:
    if not arrived.done():
        arrived.set_result(None)


def _on_own_connection(using: str, function: Callable[[], R]) -> R:
    connection = connections[using]
    refresh(connection)
    setup = conf.get_settings().CONNECTION_SETUP
    _own.works = True
    try:
        with import_string(setup)(connection) if setup else contextlib.nullcontext():
            return function()
    finally:
        _own.works = False


def _borrow(lender: _Lender, function: Callable[[], R]) -> R:
    """Runs a function on a waiting thread's connection, one at a time."""
    connection = lender.connection
    alias = connection.alias
    with _lock_of(connection):
        if not (lender.waits and _in_transaction(connection)):
            raise _LenderGoneError
        own = getattr(connections._connections, alias, None)  # type: ignore[attr-defined]
        connection.inc_thread_sharing()
        connections[alias] = connection
        try:
            return function()
        finally:
            if own is None:
                del connections[alias]
            else:
                connections[alias] = own
            connection.dec_thread_sharing()


def _lock_of(connection: BaseDatabaseWrapper) -> threading.RLock:
    with _locks_guard:
        return _locks.setdefault(connection, threading.RLock())


def _in_transaction(connection: BaseDatabaseWrapper) -> bool:
    return connection.connection is not None and (
        connection.in_atomic_block or not connection.autocommit
    )


def _is_private_memory(connection: BaseDatabaseWrapper) -> bool:
    """Tells whether only one connection has this database, as with SQLite's ``:memory:``."""
    return connection.vendor == "sqlite" and connection.settings_dict["NAME"] == ":memory:"


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
