"""Claims on sessions and messages that processes share through Django's cache; they hold ids only.

With a shared cache a message is answered once, a session answers one message at a time, and any
process can stop an answer. With a local cache each process has claims of its own.
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

CLAIM_SECONDS = 30
"""Seconds without a heartbeat after which an answer counts as ended."""

CACHE_TIMEOUT = 10
"""Seconds until a request to the cache times out: not all backends have a timeout."""

_STOP_SECONDS = 60
_PREFIX = "agent-sessions:chat"

# A separate pool: a tool that blocks its answer's threads, or asyncio's, must not delay claims.
_threads = ThreadPoolExecutor(8, thread_name_prefix="agent-sessions-chat")


class Refusal(Enum):
    """Why a message is not answered."""

    BUSY = "The session is answering another message. Wait for the answer, or stop it."
    RUNNING = (
        "This message is being answered. If its answer is not among the messages in half a minute, "
        "send the message again."
    )
    SENT = "This message was sent before. Read the messages to get its answer."
    UNANSWERED = (
        "This message was sent before, and the conversation has no answer to it. Send it as a new "
        "message, with a new id."
    )
    CHANGED = "Another message was sent with this id. Use a new id for a new message."
    EDITED = "A message that was sent cannot be edited. Send a new message."


class Stored(Enum):
    """What the session has of a message that was sent before."""

    NOTHING = "nothing"
    QUESTION = "the message, but no answer"
    ANSWER = "the message and its answer"


class Claims:
    """The claims in the cache; all methods except :meth:`take` and :meth:`ask` block."""

    def __init__(self, alias: str) -> None:
        self._alias = alias

    @property
    def _cache(self) -> Any:
        # Looked up in the thread that uses it: Django has one cache object per thread and task,
        # each with its own connections.
        return caches[self._alias]

    async def ask(self, function: Callable[..., R], *args: Any) -> R:
        """Call a blocking method in a thread; raise ``TimeoutError`` if the cache hangs."""

        def call() -> R:
            try:
                return function(*args)
            finally:
                close_idle_connections()

        async with asyncio.timeout(CACHE_TIMEOUT):
            return await asyncio.get_running_loop().run_in_executor(_threads, call)

    async def take(
        self, answer: Answer, seconds: float, stored: Callable[[UUID | None], Awaitable[Stored]]
    ) -> Refusal | None:
        """Claim a session and a message for an answer; return ``None``, or why it is refused.

        The message stays claimed for ``seconds``. ``stored`` returns what the session has after a
        given message: unless it has an answer, an earlier claim, such as that of an answer that
        failed or of a process that ended, is void.
        """
        is_free, earlier = await self.ask(self._take, answer, seconds)
        refusal: Refusal | None = Refusal.BUSY
        try:
            if earlier is not None and earlier["digest"] != answer.digest:
                refusal = Refusal.CHANGED
            elif not is_free:
                if earlier is not None and await self.ask(self._is_running, answer, earlier):
                    refusal = Refusal.RUNNING
            elif earlier is None:
                refusal = Refusal.EDITED if answer.is_known else None
            else:
                before = _parse_key(earlier["before"])
                found = await stored(before)
                if found is Stored.ANSWER:
                    refusal = Refusal.SENT
                elif earlier.get("answered"):
                    # It was stopped, or a rewind removed it.
                    refusal = Refusal.UNANSWERED
                else:
                    if found is Stored.QUESTION:
                        answer.repeats, answer.before = True, before
                    await self.ask(self._retake, answer, seconds)
                    refusal = None
        finally:
            if is_free and refusal is not None:
                await self.ask(self.release, answer)
        return refusal

    def _take(self, answer: Answer, seconds: float) -> tuple[bool, dict[str, Any] | None]:
        is_free = bool(
            self._cache.add(_session_name(answer.session), _claim(answer), CLAIM_SECONDS)
        )
        earlier = None
        if answer.message_id:
            name = _message_name(answer)
            claims = is_free and not answer.is_known
            if not claims or not self._cache.add(name, _claim(answer), seconds):
                earlier = self._cache.get(name)
        return is_free, earlier if isinstance(earlier, dict) else None

    def _is_running(self, answer: Answer, earlier: dict[str, Any]) -> bool:
        running = self.running(answer.session)
        return running is not None and running[0] == earlier["run"]

    def _retake(self, answer: Answer, seconds: float) -> None:
        self._cache.set(_message_name(answer), _claim(answer), seconds)

    def running(self, session: UUID) -> tuple[str, UUID | None] | None:
        """Return the answer that a session is giving, and the last message before it."""
        claim = self._cache.get(_session_name(session))
        return (claim["run"], _parse_key(claim["before"])) if isinstance(claim, dict) else None

    def sign(self, answer: Answer) -> None:
        """Renew the claim on a session, unless another answer has it by now."""
        name = _session_name(answer.session)
        running = self.running(answer.session)
        if running is None:
            self._cache.add(name, _claim(answer), CLAIM_SECONDS)
        elif running[0] == answer.id:
            self._cache.touch(name, CLAIM_SECONDS)

    def release(self, answer: Answer) -> None:
        """Release the session after the answer."""
        running = self.running(answer.session)
        if running is not None and running[0] == answer.id:
            self._cache.delete(_session_name(answer.session))

    def answered(self, answer: Answer, seconds: float) -> None:
        """Record that the message has its answer."""
        if answer.message_id:
            claim = _claim(answer) | {"answered": True}
            self._cache.set(_message_name(answer), claim, seconds)

    def forget(self, answer: Answer) -> None:
        """Release the message; for an answer that was not begun."""
        if answer.message_id:
            self._cache.delete(_message_name(answer))

    def ask_to_stop(self, session: UUID) -> bool:
        """Ask the process that answers to stop; return whether there is one."""
        running = self.running(session)
        if running is None:
            return False
        self._cache.set(f"{_PREFIX}:stop:{running[0]}", 1, _STOP_SECONDS)
        return True

    def stop_requested(self, answer: Answer) -> bool:
        """Return whether an answer must stop."""
        return self._cache.get(f"{_PREFIX}:stop:{answer.id}") is not None


def _claim(answer: Answer) -> dict[str, Any]:
    before = None if answer.before is None else answer.before.hex
    return {"run": answer.id, "before": before, "digest": answer.digest, "answered": False}


def _parse_key(value: str | None) -> UUID | None:
    return None if value is None else UUID(value)


def _session_name(session: UUID) -> str:
    return f"{_PREFIX}:running:{session.hex}"


def _message_name(answer: Answer) -> str:
    # Hashed, because clients choose the ids, and caches limit the characters and length of keys.
    key = f"{answer.session.hex}:{answer.message_id}".encode()
    return f"{_PREFIX}:message:{hashlib.sha256(key).hexdigest()}"
