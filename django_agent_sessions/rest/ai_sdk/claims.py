"""What processes tell each other about answers, by Django's cache: ids and nothing else.

With a cache that processes share, a message is answered once, a session answers one message at a
time, and an answer is stopped from anywhere. With a cache of its own each process knows its own.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from typing import Any, TypeVar
from uuid import UUID

from django.core.cache import caches

from django_agent_sessions.rest.streaming import close_idle_connections

from .answers import Answer

R = TypeVar("R")

ALIVE = 30
"""Seconds after which an answer that gave no sign of life is over."""

PATIENCE = 10
"""Seconds that the cache has to answer: not all backends give up by themselves."""

_STOP = 60
_PREFIX = "agent-sessions:chat"

# Of its own: a tool that blocks the threads of its answer, or asyncio's, keeps nobody waiting.
_threads = ThreadPoolExecutor(8, thread_name_prefix="agent-sessions-chat")


class Refusal(Enum):
    """Why a message is not answered."""

    BUSY = "Another message is being answered. Wait for it, or stop it."
    SENT = "This message was sent before. Read the messages to see its answer."
    CHANGED = "Another message was sent with this id. Give a new message a new id."


class Claims:
    """What is being answered; all but :meth:`take` and :meth:`ask` wait for the cache."""

    def __init__(self, alias: str) -> None:
        self._alias = alias

    @property
    def _cache(self) -> Any:
        # Of the thread that asks: Django has one for each thread and each task, and each of those
        # may have connections of its own.
        return caches[self._alias]

    async def ask(self, function: Callable[..., R], *args: Any) -> R:
        """Calls one of the other methods without blocking the loop."""

        def call() -> R:
            try:
                return function(*args)
            finally:
                close_idle_connections()

        async with asyncio.timeout(PATIENCE):
            return await asyncio.get_running_loop().run_in_executor(_threads, call)

    async def take(
        self, answer: Answer, seconds: float, stored: Callable[[UUID | None], Awaitable[bool]]
    ) -> Refusal | None:
        """Claims a session, and a message, for an answer."""
        free, earlier = await self.ask(self._take, answer, seconds)
        refusal: Refusal | None = Refusal.SENT
        try:
            if earlier is not None and earlier["digest"] != answer.digest:
                refusal = Refusal.CHANGED
            elif not free:
                refusal = Refusal.BUSY if earlier is None else Refusal.SENT
            elif earlier is None or not await stored(_key(earlier["before"])):
                if earlier is not None:
                    await self.ask(self._retake, answer, seconds)
                refusal = None
        finally:
            if free and refusal is not None:
                await self.ask(self.release, answer)
        return refusal

    def _take(self, answer: Answer, seconds: float) -> tuple[bool, dict[str, Any] | None]:
        free = bool(self._cache.add(_session(answer.session), _claim(answer), ALIVE))
        earlier = None
        if answer.message_id:
            name = _message(answer)
            if not free or not self._cache.add(name, _claim(answer), seconds):
                earlier = self._cache.get(name)
        return free, earlier if isinstance(earlier, dict) else None

    def _retake(self, answer: Answer, seconds: float) -> None:
        self._cache.set(_message(answer), _claim(answer), seconds)

    def running(self, session: UUID) -> tuple[str, UUID | None] | None:
        """Tells which answer a session is giving, and the last message before it."""
        found = self._cache.get(_session(session))
        return (found["run"], _key(found["before"])) if isinstance(found, dict) else None

    def sign(self, answer: Answer) -> None:
        """Gives a sign of life; it takes no session that is another answer's by now."""
        name = _session(answer.session)
        found = self.running(answer.session)
        if found is None:
            self._cache.add(name, _claim(answer), ALIVE)
        elif found[0] == answer.id:
            self._cache.touch(name, ALIVE)

    def release(self, answer: Answer) -> None:
        """Says that an answer is over."""
        found = self.running(answer.session)
        if found is not None and found[0] == answer.id:
            self._cache.delete(_session(answer.session))

    def forget(self, answer: Answer) -> None:
        """Lets a message be answered again, because nothing came of it."""
        if answer.message_id:
            self._cache.delete(_message(answer))

    def ask_to_stop(self, session: UUID) -> bool:
        """Asks whoever answers to stop."""
        found = self.running(session)
        if found is None:
            return False
        self._cache.set(f"{_PREFIX}:stop:{found[0]}", 1, _STOP)
        return True

    def asked_to_stop(self, answer: Answer) -> bool:
        """Tells whether an answer is to stop."""
        return self._cache.get(f"{_PREFIX}:stop:{answer.id}") is not None


def _claim(answer: Answer) -> dict[str, Any]:
    before = None if answer.before is None else answer.before.hex
    return {"run": answer.id, "before": before, "digest": answer.digest}


def _key(value: str | None) -> UUID | None:
    return None if value is None else UUID(value)


def _session(session: UUID) -> str:
    return f"{_PREFIX}:running:{session.hex}"


def _message(answer: Answer) -> str:
    # Clients choose the ids: no cache takes every character, nor any length.
    found = f"{answer.session.hex}:{answer.message_id}".encode()
    return f"{_PREFIX}:message:{hashlib.sha256(found).hexdigest()}"
