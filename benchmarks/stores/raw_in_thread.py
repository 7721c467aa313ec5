"""The raw drivers, each call in a thread that is awaited: what a blocking driver costs an agent.

An agent runs in an event loop, which a blocking call would hold up. No budget is held against
these; they show which part of a distance is the way to a thread and back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence, Sized
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks.messages import Message

from .interface import Conversation, Store
from .raw import RawPostgreSQL, RawSQLite

_thread = ThreadPoolExecutor(1)
"""One, as there is one connection."""


class _InThread(Store):
    async def conversation(self, name: str) -> Conversation:
        return _Conversation(await super().conversation(f"thread-{name}"))  # type: ignore[safe-super] # the next class has it

    async def concurrent(self, name: str) -> Conversation:
        return await self.conversation(name)

    async def restore(self, name: str) -> Sized:
        found: Sized = await _run(super().restore(f"thread-{name}"))  # type: ignore[safe-super] # the next class has it
        return found

    async def delete(self, name: str) -> None:
        await _run(super().delete(f"thread-{name}"))  # type: ignore[safe-super] # the next class has it

    async def list_sessions(self, count: int) -> int:
        found: int = await _run(super().list_sessions(count))
        return found


class PostgreSQLInThread(_InThread, RawPostgreSQL):
    """psycopg's blocking connection."""

    name = "raw psycopg, in a thread"

    async def fill_sessions(self, count: int) -> None:
        """They are there."""


class SQLiteInThread(_InThread, RawSQLite):
    """A connection of sqlite3."""

    name = "raw sqlite3, in a thread"

    async def fill_sessions(self, count: int) -> None:
        """They are there."""


class _Conversation(Conversation):
    def __init__(self, raw: Conversation) -> None:
        self.raw = raw

    async def fill(self, messages: Sequence[Message]) -> None:
        await self.raw.fill(messages)

    async def append(self, message: Message) -> None:
        await _run(self.raw.append(message))

    async def append_many(self, messages: Sequence[Message]) -> None:
        await _run(self.raw.append_many(messages))

    async def latest(self, count: int) -> int:
        found: int = await _run(self.raw.latest(count))
        return found


async def _run(work: Coroutine[Any, Any, Any]) -> Any:
    return await asyncio.get_running_loop().run_in_executor(_thread, _finish, work)


def _finish(work: Coroutine[Any, Any, Any]) -> Any:
    """Runs what never waits for a loop; these drivers block."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waits")
