"""How long an agent waits for the database during a turn, measured in the server.

Everything that an adapter asks of the store comes through ``bridge``, so that is where the clock
is: from asking until the agent goes on, the wait for a thread included, and, apart from that, what
the database work itself took. What a turn took in sum becomes a line of a file.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from django.db import connections
from django.db.backends.signals import connection_created

from django_agent_sessions.db import bridge

from . import settings
from .notes import Notes

R = TypeVar("R")

_notes = Notes("turns")


@dataclass
class Turn:
    """What an agent's turn took so far."""

    agent: str
    waited: float = 0
    """Seconds between asking and going on."""

    inside: float = 0
    """Those of them in which the work was done."""

    calls: int = 0
    """How often something was asked."""

    statements: int = 0
    """How many statements that took."""

    def count(self, execute: Callable[..., Any], *arguments: Any) -> Any:
        """Runs a statement; one of Django's wrappers of such."""
        self.statements += 1
        return execute(*arguments)


_turn: ContextVar[Turn | None] = ContextVar("turn", default=None)


def install() -> None:
    """Puts the clock in, and has connections of the app's own threads called by another name."""
    run_sync, run_async = bridge.run_sync, bridge.run_async

    @functools.wraps(run_sync)
    def timed_sync(function: Callable[[], R], *, using: str) -> R:
        turn = _turn.get()
        if turn is None:
            return run_sync(function, using=using)
        began = time.perf_counter()
        try:
            return run_sync(functools.partial(_inside, turn, function, using), using=using)
        finally:
            _add(turn, time.perf_counter() - began)

    @functools.wraps(run_async)
    async def timed_async(function: Callable[[], R], *, using: str) -> R:
        turn = _turn.get()
        if turn is None:
            return await run_async(function, using=using)
        began = time.perf_counter()
        try:
            return await run_async(functools.partial(_inside, turn, function, using), using=using)
        finally:
            _add(turn, time.perf_counter() - began)

    modified: Any = bridge
    modified.run_sync, modified.run_async = timed_sync, timed_async
    connection_created.connect(_name, dispatch_uid="benchmarks.load")


def _inside(turn: Turn, function: Callable[[], R], using: str) -> R:
    """Does the work, in which nothing is counted a second time."""
    token = _turn.set(None)
    began = time.perf_counter()
    try:
        with connections[using].execute_wrapper(turn.count):
            return function()
    finally:
        turn.inside += time.perf_counter() - began
        _turn.reset(token)


def _add(turn: Turn, seconds: float) -> None:
    turn.waited += seconds
    turn.calls += 1


def begin(agent: str) -> Turn:
    """Begins to count in this task, and in what it starts."""
    turn = Turn(agent)
    _turn.set(turn)
    return turn


def counted(turn: Turn, answer: Any) -> Any:
    """Has a turn written down at the end of an agent's events."""
    if hasattr(answer, "stream_events"):
        answer.stream_events = functools.partial(_to_the_end, turn, answer.stream_events)
        return answer
    return _to_the_end(turn, lambda: answer)


async def _to_the_end(turn: Turn, events: Callable[[], Any]) -> AsyncIterator[Any]:
    async with aclosing(events()) as found:
        async for event in found:
            yield event
    _notes.add(asdict(turn))


def _name(sender: Any, connection: Any, **kwargs: Any) -> None:
    """Tells connections apart at the server; with a pool one is now this thread's, now that's."""
    own = threading.current_thread().name == "agent-sessions"
    if connection.vendor == "postgresql" and (own or settings._POOL):
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT set_config('application_name', %s, false)",
                [settings.OWN if own else settings.REQUESTS],
            )
