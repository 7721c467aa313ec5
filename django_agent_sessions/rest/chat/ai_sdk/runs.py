"""Running answers: each is a task of its own, which continues when its client disconnects."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import Context, copy_context
from dataclasses import dataclass, replace
from typing import Any

from asgiref.sync import SyncToAsync, ThreadSensitiveContext

from django_agent_sessions.rest.streaming import close_idle_connections
from django_agent_sessions.values.ids import SessionKey
from django_agent_sessions.values.run_context import QuestionKey, run_context

from .answers import Answer, ReplayBuffer
from .chat import Chat
from .claims import CLAIM_SECONDS, Claims
from .stream_writer import Writer
from .translator import Translator

logger = logging.getLogger(__name__)

STOP_POLL_SECONDS = 0.5
"""Seconds between two checks whether an answer must stop."""

EXISTENCE_CHECK_SECONDS = 3.0
"""Seconds between two checks whether its session still exists."""


# The errors of answers that end although no user stopped them.
DELETED = "The conversation was deleted."
SHUT_DOWN = "The server was restarted before the answer was complete. Send the message again."
STOPPED = "The answer was stopped before it was complete. Send the message again."
TIMED_OUT = "The answer took too long and was stopped."


@dataclass(frozen=True, slots=True)
class RunLimits:
    """The limits of answers."""

    runs: int
    """Concurrent answers in this process."""

    runs_of_user: int
    """Concurrent answers of one user."""

    seconds: float
    """The longest duration of an answer."""

    buffer_bytes: int
    """How much of an answer is buffered for clients that join late."""

    linger: float
    """Seconds for which a finished answer is kept."""

    grace: float
    """Seconds that an agent has to stop by itself."""


class Run:
    """A running answer to a user's message.

    ``respond`` returns the agent's events, ``exists`` whether the session still exists. ``ended``
    is called at the end, with the seconds for which the answer is kept.
    """

    def __init__(
        self,
        chat: Chat,
        answer: Answer,
        respond: Callable[[Chat], Any],
        claims: Claims,
        bounds: RunLimits,
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
        self._end_text = ""
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Start to answer, in the running loop."""
        self.chat = replace(self.chat, is_repeated=self.answer.repeats)
        loop = self.answer.loop = asyncio.get_running_loop()
        self._buffer = self.answer.buffer = ReplayBuffer(self._bounds.buffer_bytes)
        self._writer = Writer(self._buffer.add)
        self._translator = Translator(self._writer)
        self._stop = asyncio.Event()
        if self.chat.stopping.is_set():
            self._stop.set()
        self._failed = True
        user = self.chat.user
        author = "" if self.chat.owner is user else str(user.pk)
        with run_context(author=author, question=self._question_key()):
            self._thread = AnswerThread()
        self._writer.begin(self.answer.id)
        self._task = loop.create_task(self._run(), context=self._thread.context)
        self._task.add_done_callback(self._close)

    def _question_key(self) -> QuestionKey | None:
        """Return the message's id for its row; None for a stored one whose text is not known."""
        chat, stored_text = self.chat, self.answer.stored_text
        if not chat.message_id or (chat.is_repeated and stored_text is None):
            return None
        session = SessionKey(chat.namespace, chat.scope, chat.session_id)
        return QuestionKey(chat.message_id, session, stored_text, chat.text)

    @property
    def begun(self) -> bool:
        """Whether the answer was started."""
        return self._task is not None

    def ask_to_stop(self, text: str = "") -> None:
        """Stop the answer, from any thread: for a user, or because of an error with this text."""
        self._end_text = self._end_text or text
        self.chat.stopping.set()
        if self._task is not None:
            with suppress(RuntimeError):
                self._task.get_loop().call_soon_threadsafe(self._stop.set)

    async def stopped(self) -> bool:
        """Wait for the answer to end, unless it is another loop's; return whether it has ended."""
        if self._task is not None and self.answer.loop is asyncio.get_running_loop():
            await asyncio.wait([self._task], timeout=2 * self._bounds.grace + 2)
        return self.answer.over

    async def end(self) -> None:
        """Cancel the answer, because the process shuts down."""
        if self._task is not None and self.answer.loop is asyncio.get_running_loop():
            self._end_text = self._end_text or SHUT_DOWN
            self._task.cancel()
            await asyncio.wait([self._task], timeout=self._bounds.grace + 2)

    # --- the task ----------------------------------------------------------------------------

    async def _run(self) -> None:
        answer_task = asyncio.create_task(self._answer())
        watch_task = asyncio.create_task(self._watch(answer_task))
        answer_task.add_done_callback(_retrieve_exception)
        watch_task.add_done_callback(_retrieve_exception)
        try:
            await asyncio.wait([answer_task, watch_task], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            # The server shuts down and waits for this task.
            self._end_text = self._end_text or SHUT_DOWN
            self.chat.stopping.set()
            answer_task.cancel()
            await asyncio.wait([answer_task], timeout=self._bounds.grace)
        finally:
            watch_task.cancel()
            self._conclude(answer_task)
            await self._settle()

    async def _answer(self) -> None:
        events = self._respond(self.chat)
        if inspect.isawaitable(events):
            events = await events
        stream_events = getattr(events, "stream_events", None)
        if callable(stream_events):
            self._translator.cancel = getattr(events, "cancel", None)
            events = stream_events()
        try:
            async for event in events:
                self._translator.feed(event)
                if self._stop.is_set():
                    self._cancel()
                # A framework may yield many events without a pause: let the readers run.
                await asyncio.sleep(0)
        finally:
            close = getattr(events, "aclose", None)
            if close is not None:
                await close()

    async def _watch(self, answer_task: asyncio.Task[None]) -> None:
        start = last_heartbeat = last_check = time.monotonic()
        while not self._stop.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(STOP_POLL_SECONDS):
                    await self._stop.wait()
                break
            now = time.monotonic()
            if now - last_heartbeat > CLAIM_SECONDS / 3:
                last_heartbeat = now
                await self._ask(self._claims.sign)
            if now - last_check > EXISTENCE_CHECK_SECONDS:
                last_check = now
                if await self._is_deleted():
                    self._end_text = self._end_text or DELETED
                    self._stop.set()
            if now - start > self._bounds.seconds:
                self._end_text = self._end_text or TIMED_OUT
                self._stop.set()
            elif await self._ask(self._claims.stop_requested):
                self._stop.set()
        self.chat.stopping.set()
        self._cancel()
        await asyncio.wait([answer_task], timeout=self._bounds.grace)
        answer_task.cancel()
        # A task that ignores its cancellation is not waited for any longer.
        await asyncio.wait([answer_task], timeout=self._bounds.grace)

    async def _is_deleted(self) -> bool:
        """Return whether the session was deleted, in which case nothing may be written any more."""
        try:
            return not await self._exists()
        except Exception as error:
            logger.warning(
                "session %s: cannot check that it exists: %s", self.chat.key, type(error).__name__
            )
            return False

    def _cancel(self) -> None:
        """Stop the agent with the method of its framework."""
        if self._translator.cancel is not None:
            try:
                self._translator.cancel()
            except Exception as error:
                logger.warning(
                    "session %s: the agent could not be cancelled: %s",
                    self.chat.key,
                    type(error).__name__,
                )

    def _conclude(self, answer_task: asyncio.Task[None]) -> None:
        if not answer_task.done():
            logger.warning("session %s: the agent does not stop and is abandoned", self.chat.key)
        is_over = answer_task.done() and not answer_task.cancelled()
        error = answer_task.exception() if is_over else None
        if error is not None:
            # The text of the error may contain message text.
            logger.error(
                "session %s: the agent failed with %s", self.chat.key, type(error).__name__
            )
        if self._end_text:
            self._writer.fail(self._end_text)
        elif self.chat.stopping.is_set():
            self._writer.abort()
            self._failed = False
        elif error is not None:
            self._writer.fail(self._error_text)
        elif not is_over or self._translator.cancelled:
            self._writer.fail(STOPPED)
        else:
            self._writer.finish()
            self._failed = False

    async def _settle(self) -> None:
        """Release the session at once, so that its next message can be answered."""
        if not self._failed:
            await self._ask(self._claims.answered, self._bounds.seconds + self._bounds.linger)
        await self._ask(self._claims.release)
        self.answer.over = True
        self.answer.claim_task = None
        # An answer that failed may be retried.
        self._ended(self.answer, 0 if self._failed else self._bounds.linger)
        self._buffer.close()
        self._thread.end()

    def _close(self, task: asyncio.Task[None]) -> None:
        """End the stream of a task that was cancelled before it began, or failed."""
        if not self.answer.over:
            self._writer.fail(self._end_text or STOPPED)
            self.answer.over = True
            self._ended(self.answer, 0)
            self._buffer.close()
            self._thread.end()

    async def _ask(self, function: Callable[..., Any], *args: Any) -> Any:
        """Access the cache; an error of the cache does not end the answer."""
        try:
            return await self._claims.ask(function, self.answer, *args)
        except Exception as error:
            logger.warning(
                "session %s: the cache cannot be used: %s", self.chat.key, type(error).__name__
            )
            return None


class AnswerThread:
    """The context of a task that does not share the thread of its request.

    By default ``sync_to_async`` runs all sync code of a request in one thread, so that a slow tool
    would delay the response and everything after it.
    """

    def __init__(self) -> None:
        # Not entered: within the context of the request, entering another one has no effect.
        self._sensitive = ThreadSensitiveContext()
        self.context = Context()
        for variable, value in copy_context().items():
            self.context.run(variable.set, value)
        self.context.run(SyncToAsync.thread_sensitive_context.set, self._sensitive)

    def end(self) -> None:
        """Shut down the thread after its last call, without waiting for it."""
        executor = SyncToAsync.context_to_thread_executor.pop(self._sensitive, None)
        if executor is not None:
            executor.submit(close_idle_connections)
            executor.shutdown(wait=False)


def _retrieve_exception(task: asyncio.Task[None]) -> None:
    """Keep asyncio from logging an error's text when no code awaits the task."""
    if not task.cancelled():
        task.exception()
