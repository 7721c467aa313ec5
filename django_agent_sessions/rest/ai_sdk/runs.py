"""Answers that are being given: each is a task of its own, which no client's leaving ends."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from .answers import Answer
from .buffers import ReplayBuffer
from .chat import Chat
from .chunks import Writer
from .claims import ALIVE, Claims
from .events import Translator
from .threads import OwnThread

logger = logging.getLogger(__name__)

POLL = 0.5
"""Seconds between two looks at whether an answer is to stop."""

LOOK = 3.0
"""Seconds between two looks at whether its session is still there."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much an answer may take."""

    runs: int
    """Answers at once in this process."""

    runs_of_user: int
    """Those of one user."""

    seconds: float
    """How long an answer may take."""

    buffer_bytes: int
    """How much of an answer is kept for whoever comes late."""

    linger: float
    """Seconds for which an answer is kept when it is over."""

    grace: float
    """Seconds that an agent has to stop by itself."""


class Run:
    """An answer to a user's message."""

    def __init__(
        self,
        chat: Chat,
        answer: Answer,
        respond: Callable[[Chat], Any],
        claims: Claims,
        bounds: Bounds,
        *,
        exists: Callable[[], Awaitable[bool]],
        ended: Callable[[Answer, float], None],
        error_text: str,
    ) -> None:
        self.chat = chat
        self.answer = answer
        self.since = time.monotonic()
        self._exists = exists
        self._respond = respond
        self._claims = claims
        self._bounds = bounds
        self._ended = ended
        self._error_text = error_text
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Begins to answer, in the running loop."""
        loop = self.answer.loop = asyncio.get_running_loop()
        self._buffer = self.answer.buffer = ReplayBuffer(self._bounds.buffer_bytes)
        self._writer = Writer(self._buffer.add)
        self._translator = Translator(self._writer)
        self._stop = asyncio.Event()
        if self.chat.stopping.is_set():
            self._stop.set()
        self._late = False
        self._failed = False
        self._thread = OwnThread()
        self._task = loop.create_task(self._run(), context=self._thread.context)

    @property
    def begun(self) -> bool:
        """Whether it has begun."""
        return self._task is not None

    def ask_to_stop(self) -> None:
        """Stops the answer; from any thread."""
        self.chat.stopping.set()
        if self._task is not None:
            with suppress(RuntimeError):
                self._task.get_loop().call_soon_threadsafe(self._stop.set)

    async def stopped(self) -> bool:
        """Waits until a stop has come to its end."""
        if self._task is not None and self.answer.loop is asyncio.get_running_loop():
            await asyncio.wait([self._task], timeout=2 * self._bounds.grace + 2)
        return self.answer.over

    async def end(self) -> None:
        """Ends the answer because its process ends."""
        if self._task is not None and self.answer.loop is asyncio.get_running_loop():
            self._task.cancel()
            await asyncio.wait([self._task], timeout=self._bounds.grace + 2)

    # --- the task ----------------------------------------------------------------------------

    async def _run(self) -> None:
        self._writer.begin(self.answer.id)
        answering = asyncio.create_task(self._answer())
        watching = asyncio.create_task(self._watch(answering))
        answering.add_done_callback(_looked_at)
        watching.add_done_callback(_looked_at)
        try:
            await asyncio.wait([answering, watching], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            # The server shuts down, and waits for this.
            self.chat.stopping.set()
            answering.cancel()
            await asyncio.wait([answering], timeout=self._bounds.grace)
        finally:
            watching.cancel()
            self._conclude(answering)
            await self._settle()

    async def _answer(self) -> None:
        found = self._respond(self.chat)
        if inspect.isawaitable(found):
            found = await found
        streaming = getattr(found, "stream_events", None)
        if callable(streaming):
            self._translator.cancel = getattr(found, "cancel", None)
            found = streaming()
        try:
            async for event in found:
                self._translator.feed(event)
                if self._stop.is_set():
                    self._cancel()
                # A framework may yield many events at once: readers keep up with them.
                await asyncio.sleep(0)
        finally:
            close = getattr(found, "aclose", None)
            if close is not None:
                await close()

    async def _watch(self, answering: asyncio.Task[None]) -> None:
        began = signed = looked = time.monotonic()
        while not self._stop.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL):
                    await self._stop.wait()
                break
            now = time.monotonic()
            if now - signed > ALIVE / 3:
                signed = now
                await self._ask(self._claims.sign)
            if now - looked > LOOK:
                looked = now
                if await self._gone():
                    self._stop.set()
            if now - began > self._bounds.seconds:
                self._late = True
                self._stop.set()
            elif await self._ask(self._claims.asked_to_stop):
                self._stop.set()
        self.chat.stopping.set()
        self._cancel()
        await asyncio.wait([answering], timeout=self._bounds.grace)
        answering.cancel()
        # One that does not even end then is not waited for.
        await asyncio.wait([answering], timeout=self._bounds.grace)

    async def _gone(self) -> bool:
        """Whether the session was deleted: nothing may be written any more."""
        try:
            return not await self._exists()
        except Exception as error:
            logger.warning(
                "session %s: it cannot be looked for: %s", self.chat.key, type(error).__name__
            )
            return False

    def _cancel(self) -> None:
        """Lets the agent stop by itself, as its framework does it."""
        if self._translator.cancel is not None:
            try:
                self._translator.cancel()
            except Exception as error:
                logger.warning(
                    "session %s: the agent could not be stopped gently: %s",
                    self.chat.key,
                    type(error).__name__,
                )

    def _conclude(self, answering: asyncio.Task[None]) -> None:
        if not answering.done():
            logger.warning("session %s: the agent does not stop; it is left alone", self.chat.key)
        if not answering.done() or answering.cancelled():
            error: BaseException | None = None
            stopped = True
        else:
            error = answering.exception()
            stopped = self.chat.stopping.is_set() or self._translator.cancelled
        if error is not None:
            # Its text may quote what was said.
            logger.error(
                "session %s: the agent failed with %s", self.chat.key, type(error).__name__
            )
        self._failed = error is not None and not stopped
        if self._late:
            self._writer.fail("The answer took too long, and was stopped.")
        elif stopped:
            self._writer.abort()
        elif self._failed:
            self._writer.fail(self._error_text)
        else:
            self._writer.finish()

    async def _settle(self) -> None:
        """Lets go of the session, so that the next message is answered as soon as this one was."""
        await self._ask(self._claims.release)
        if self._failed:
            await self._ask(self._claims.forget)
        self.answer.over = True
        self.answer.entering = None
        # One that failed may be tried again.
        self._ended(self.answer, 0 if self._failed else self._bounds.linger)
        self._buffer.close()
        self._thread.end()

    async def _ask(self, function: Callable[[Answer], Any]) -> Any:
        """Asks the cache; an answer does not end because it cannot be asked."""
        try:
            return await self._claims.ask(function, self.answer)
        except Exception as error:
            logger.warning(
                "session %s: the cache cannot be asked: %s", self.chat.key, type(error).__name__
            )
            return None


def _looked_at(task: asyncio.Task[None]) -> None:
    """Keeps asyncio from logging an error's text, should nobody wait for the task any more."""
    if not task.cancelled():
        task.exception()
