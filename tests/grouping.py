"""Calls that wait together for the one thread of the pool, so that they form a group."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
from django.db import connection

from django_agent_sessions import arun_orm
from django_agent_sessions.db import bridge


@pytest.fixture
def one_thread(settings: Any) -> None:
    """The pool has one thread at most: those of earlier tests have ended."""
    settings.AGENT_SESSIONS = {"MAX_CONNECTIONS": 1}
    for _ in range(1_000):
        bridge._own_pool.dismiss()
        if not bridge._own_pool.size:
            return
        time.sleep(0.01)
    pytest.fail("a thread of the pool is still busy")


@contextmanager
def recorded(statements: list[str]) -> Iterator[None]:
    """Records the statements of this thread, also those of a transaction's begin."""

    def record(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        # The tests' connections are opened anew for each call.
        if not sql.startswith("PRAGMA"):
            statements.append(sql)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(record):
        yield


async def together(
    *calls: Awaitable[Any],
    within: Callable[[], AbstractContextManager[Any]] | None = None,
    waiting: Callable[[list[asyncio.Task[Any]]], object] = lambda tasks: None,
) -> list[Any]:
    """Awaits calls that were all queued before the pool's thread takes the first.

    Args:
        *calls: The calls; with ``MAX_CONNECTIONS`` of 1 they share a thread.
        within: A context manager that is entered in that thread before, and left afterwards.
        waiting: Is called with the tasks when all wait.

    Returns:
        What each returned or raised.
    """
    loop, held, gate = asyncio.get_running_loop(), asyncio.Event(), threading.Event()
    entered: list[AbstractContextManager[Any]] = []

    def hold() -> None:
        if within is not None:
            entered.append(within())
            entered[0].__enter__()
        loop.call_soon_threadsafe(held.set)
        assert gate.wait(30)

    holder = asyncio.ensure_future(arun_orm(hold))
    await held.wait()
    tasks = [asyncio.ensure_future(call) for call in calls]
    for _ in range(5):
        await asyncio.sleep(0)
    waiting(tasks)
    gate.set()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    await holder
    if entered:
        await arun_orm(entered[0].__exit__, None, None, None)
    return outcomes
