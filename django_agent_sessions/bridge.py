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
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ParamSpec, TypeVar

from asgiref.current_thread_executor import CurrentThreadExecutor
from django.db import connections, router
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils.module_loading import import_string

from . import conf
from .broken_connections import refresh, settle
from .exceptions import ConfigurationError
from .lenders import (
    Lender,
    find_lender,
    in_transaction,
    is_own,
    promised,
    register_waiting_call,
    running_loop,
)
from .work import Work
from .workers import WorkerPool

__all__ = [
    "arun_orm",
    "database",
    "joined",
    "register_waiting_call",
    "run_async",
    "run_orm",
    "run_sync",
]

P = ParamSpec("P")
R = TypeVar("R")

_UNBOUNDED = 10_000

_own_pool = WorkerPool(limit=lambda: conf.get_settings().MAX_CONNECTIONS)
# Threads that borrow a caller's connection: as many as callers wait, each for its own.
_borrowing_pool = WorkerPool(limit=lambda: _UNBOUNDED, patience=0)

_locks: weakref.WeakKeyDictionary[BaseDatabaseWrapper, threading.RLock] = (
    weakref.WeakKeyDictionary()
)
_locks_guard = threading.Lock()
# Work that asks for more work must not queue behind itself.
_own = threading.local()


def database(using: str | None = None) -> str:
    """Tells which database the sessions are in."""
    if using is not None:
        return using
    from .models import Session

    return conf.get_settings().DATABASE or router.db_for_write(Session)


def connection_setup() -> Callable[[BaseDatabaseWrapper], Any] | None:
    """Finds what sets our own connections up."""
    path = conf.get_settings().CONNECTION_SETUP
    if not path:
        return None
    try:
        found = import_string(path)
    except (ImportError, TypeError, ValueError) as error:
        # The last two are for what looks like a relative path, such as ".tenants.as_tenant".
        raise ConfigurationError(
            f"AGENT_SESSIONS['CONNECTION_SETUP'] names {path!r}, which cannot be imported"
        ) from error
    if not callable(found):
        raise ConfigurationError(
            f"AGENT_SESSIONS['CONNECTION_SETUP'] names {path!r}, which cannot be called"
        )
    setup: Callable[[BaseDatabaseWrapper], Any] = found
    return setup


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
    if running_loop() is not None:
        raise ConfigurationError("joined() is for a thread that waits, and here runs a loop")
    connection = connections[database(using)]
    if not in_transaction(connection):
        raise ConfigurationError(
            f"joined() found no open transaction on {connection.alias!r}: "
            "enter transaction.atomic() first"
        )
    lender = Lender(connection, outer=promised.get())
    token = promised.set(lender)
    try:
        yield
    finally:
        promised.reset(token)
        with _lock_of(connection):
            lender.waits = False


def run_sync(function: Callable[[], R], *, using: str) -> R:
    """Runs ORM code and waits for it, wherever this is called."""
    looping = running_loop() is not None
    connection = connections[using]
    if not looping:
        settle(connection)
    if not looping and (in_transaction(connection) or getattr(_own, "works", False)):
        return function()
    lender = find_lender(using)
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
    """
    lender = find_lender(using)
    with contextlib.suppress(_LenderGoneError):
        if isinstance(lender, CurrentThreadExecutor):
            return await _submit_to_lender(lender, function)
        if lender is not None:
            borrowing = functools.partial(_borrow, lender, function)
            if is_own(lender.connection, using):
                return _wait(_borrowing_pool, borrowing)
            return await _arun(_borrowing_pool, borrowing)
    return await _arun(_own_pool, functools.partial(_on_own_connection, using, function))


# --- running ---------------------------------------------------------------------------------


class _LenderGoneError(Exception):
    """The thread whose transaction this was has stopped waiting."""


def _submit_to_lender(executor: CurrentThreadExecutor, function: Callable[[], R]) -> Work[R]:
    work = Work(_in_context(function))
    try:
        executor.submit(work.run)
    except RuntimeError as error:
        raise _LenderGoneError from error
    return work


def _in_context(function: Callable[[], R]) -> Callable[[], R]:
    # Database routers, tenants and loggers read the caller's context.
    return functools.partial(contextvars.copy_context().run, function)


def _wait(pool: WorkerPool, function: Callable[[], R]) -> R:
    return _outcome(pool.submit(_in_context(function)), pool)


def _outcome(work: Work[R], pool: WorkerPool | None = None) -> R:
    """Waits for work, whatever a signal handler raises meanwhile.

    The work may use a connection of this very thread, which must not go on before it is over.
    """
    try:
        if pool is not None and pool.patience and work.queued:
            work.wait(pool.patience)
            pool.nudge(work)
        work.wait()
    except BaseException:
        while not work.done():
            with contextlib.suppress(BaseException):
                work.wait()
        raise
    return work.result()


async def _arun(pool: WorkerPool, function: Callable[[], R]) -> R:
    work = pool.submit(_in_context(function))
    if not (work.queued and pool.patience):
        return await work
    timer = asyncio.get_running_loop().call_later(pool.patience, pool.nudge, work)
    try:
        return await work
    finally:
        timer.cancel()


def _on_own_connection(using: str, function: Callable[[], R]) -> R:
    connection = connections[using]
    refresh(connection)
    setup = connection_setup()
    _own.works = True
    try:
        with _entered(setup(connection)) if setup else contextlib.nullcontext():
            return function()
    finally:
        _own.works = False


def _entered(context: Any) -> AbstractContextManager[Any]:
    """Refuses what cannot be entered, such as what a function gives without its decorator."""
    if not isinstance(context, AbstractContextManager):
        raise ConfigurationError(
            "AGENT_SESSIONS['CONNECTION_SETUP'] names a callable that returns "
            f"{type(context).__name__}, and no context manager"
        )
    return context


def _borrow(lender: Lender, function: Callable[[], R]) -> R:
    """Runs a function on a waiting thread's connection, one at a time."""
    connection = lender.connection
    alias = connection.alias
    with _lock_of(connection):
        if not (lender.waits and in_transaction(connection)):
            raise _LenderGoneError
        # This thread's; where it has none, Django makes one, which opens nothing by itself.
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
    """Tells whether only one connection has this database, as with SQLite's ``:memory:``."""
    return connection.vendor == "sqlite" and connection.settings_dict["NAME"] == ":memory:"
