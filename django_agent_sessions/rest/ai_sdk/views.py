"""The views that ``useChat`` talks to."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, ClassVar, TypeVar

from django.core.handlers.asgi import ASGIRequest
from django.http import Http404, HttpResponse
from rest_framework.exceptions import APIException
from rest_framework.response import Response

from django_agent_sessions.rest import throttles
from django_agent_sessions.rest.events import EventStreamRenderer
from django_agent_sessions.rest.problems import Conflict
from django_agent_sessions.rest.streaming import event_stream

from .answers import Answer
from .chat import Chat
from .chunks import HEADERS
from .claims import Claims, Refusal
from .reading import ChatTranscripts
from .registry import runs
from .requests import FORMATS, REGENERATE, Incoming, Limits, read
from .runs import Bounds, Run

CHAT = "chat"
STREAM = "stream"
STOP = "stop"
MESSAGES = "messages"


UNANSWERED = "unanswered"
"""The query parameter of a client that has the user's message, and no answer to it."""

R = TypeVar("R")

logger = logging.getLogger(__name__)


class Unavailable(APIException):
    """It cannot be found out whether a message may be answered."""

    status_code = 503
    default_detail = "Messages cannot be answered just now. Try again in a moment."
    default_code = "unavailable"
    wait = 5


class ChatView(ChatTranscripts):
    """A chat with an agent of the project's, for ``useChat`` of the AI SDK.

    A subclass says which agent answers; :func:`~.urls.chat_urls` makes the URLs of it. The other
    attributes bound what it takes.
    """

    route: ClassVar[str] = CHAT
    """Which of its URLs a view serves."""

    # The OpenAPI document describes JSON, and this protocol is the AI SDK's own.
    schema: Any = None
    throttle_scope: str | None = throttles.CHAT

    error_text: ClassVar[str] = "The assistant could not answer. Try again in a moment."
    """What the user is told if the agent fails. The error's own text is told to nobody."""

    max_characters: ClassVar[int] = 100_000
    max_files: ClassVar[int] = 10
    max_file_bytes: ClassVar[int] = 10 * 1024 * 1024
    """Bytes of a file; Django's ``DATA_UPLOAD_MAX_MEMORY_SIZE`` bounds the request as a whole."""

    file_formats: ClassVar[Mapping[str, str]] = FORMATS
    """Media types that may be attached, and how agent frameworks name each."""

    max_runs: ClassVar[int] = 100
    """Answers at once in a process; whoever asks for more is told to come again."""

    max_runs_of_user: ClassVar[int] = 10
    """Those of one user."""

    max_run_seconds: ClassVar[float] = 600
    """How long an answer may take; then it is stopped."""

    max_buffer_bytes: ClassVar[int] = 8 * 1024 * 1024
    """How much of an answer is kept for a client that comes back meanwhile."""

    replay_seconds: ClassVar[float] = 30
    """For how long an answer that is over is given again to a client that repeats its request."""

    stop_grace_seconds: ClassVar[float] = 3
    """How long an agent may take to stop by itself; then its task is cancelled."""

    def respond(self, chat: Chat) -> Any:
        """Makes the answer. To be overridden, mostly as ``async def``."""
        raise NotImplementedError("override respond()")

    async def regenerate(self, incoming: Incoming) -> Any:
        """Answers an old message again. To be overridden by a project that can."""
        raise Conflict("An answer is not given again here. Send the message once more.")

    async def accept(self, chat: Chat) -> None:
        """Looks whether a message is answered at all. To be overridden."""

    # --- handlers ----------------------------------------------------------------------------

    def get_renderers(self) -> list[Any]:
        """Lets a client ask for a stream alone where there is one."""
        streams = [EventStreamRenderer()] if self.route in (CHAT, STREAM) else []
        return [*super().get_renderers(), *streams]

    async def post(self, request: Any, chat: str = "") -> Any:
        """Answers a message, or stops an answer."""
        if self.route == STOP:
            return await self._stop(chat)
        incoming = await self.in_thread(self._read)
        if incoming.trigger == REGENERATE:
            return await self.regenerate(incoming)
        made, answer = await self.run_orm(self.open_chat, incoming)
        await self.accept(made)
        return await self._start(made, answer)

    async def get(self, request: Any, chat: str = "") -> Any:
        """Gives the messages, or the answer that is being given."""
        if self.route == MESSAGES:
            loop = asyncio.get_running_loop()
            page, link = await self.in_thread(self.read_messages, chat, loop)
            return Response(page, headers={"Link": link} if link else None)
        try:
            session = await self.run_orm(self.own_session, chat)
        except Http404:
            # Clients ask for chats, too, that have not begun.
            return HttpResponse(status=204)
        answer = runs.recent(session.pk)
        if answer is None or not answer.replayable(session.redaction_epoch):
            return HttpResponse(status=204)
        if answer.over and request.query_params.get(UNANSWERED) != "true":
            return HttpResponse(status=204)
        return self._streamed(answer.follow())

    # --- the parts of them -------------------------------------------------------------------

    def _read(self) -> Incoming:
        self.check_may_talk()
        limits = Limits(self.max_characters, self.max_files, self.max_file_bytes, self.file_formats)
        return read(self.request.data, limits)

    def check_room(self) -> None:
        """Refuses a chat if its user has too many answers; no session is made for it."""
        runs.check_room(self.request.user.pk, self._bounds())

    async def _start(self, chat: Chat, answer: Answer) -> Any:
        bounds, claims = self._bounds(), Claims(self.cache)
        run = Run(
            chat,
            answer,
            self.respond,
            claims,
            bounds,
            exists=functools.partial(self.run_orm, self.is_there, chat.key),
            ended=runs.ended,
            error_text=self.error_text,
        )
        same = runs.enter(run, bounds)
        if same is not None:
            return await self._repeated(same, answer.epoch)
        # A client that leaves now has sent its message all the same.
        entering = answer.entering = asyncio.create_task(self._enter(run, claims))
        refusal = await asyncio.shield(entering)
        if refusal is not None:
            raise Conflict(refusal.value)
        if run.begun:
            return self._streamed(answer.follow())
        return self._streamed(_begun(run), functools.partial(_abandon, run, claims))

    async def _enter(self, run: Run, claims: Claims) -> Refusal | None:
        """Claims what an answer needs, and begins it where it outlives its request."""
        refusal: Refusal | None = Refusal.BUSY
        stored = functools.partial(self.run_orm, self.said_since, run.chat.key)
        lasting = self.max_run_seconds + self.replay_seconds
        try:
            refusal = await self._ask(claims.take(run.answer, lasting, stored))
            if refusal is None and isinstance(self.request._request, ASGIRequest):
                run.begin()
        finally:
            if refusal is not None:
                runs.leave(run)
        return refusal

    async def _ask(self, asking: Awaitable[R]) -> R:
        """Asks other processes."""
        try:
            return await asking
        except (APIException, Http404, asyncio.CancelledError):
            raise
        except Exception as error:
            # Its text may hold the address of a cache, and what opens it.
            logger.error("a message is not answered: %s", type(error).__name__)
            raise Unavailable from None

    async def _repeated(self, answer: Answer, epoch: int) -> Any:
        await answer.entered()
        if answer.replayable(epoch):
            return self._streamed(answer.follow())
        raise Conflict(Refusal.SENT.value)

    def _streamed(
        self, pieces: AsyncIterator[bytes], when_closed: Callable[[], None] | None = None
    ) -> Any:
        body = self._alone(pieces)
        return event_stream(self.request, body, headers=HEADERS, when_closed=when_closed)

    async def _alone(self, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Reads a stream without a connection that a middleware opened after the view."""
        await self.in_thread(_nothing)
        try:
            async for piece in pieces:
                yield piece
        finally:
            close: Any = getattr(pieces, "aclose", None)
            if close is not None:
                await close()

    async def _stop(self, key: str) -> HttpResponse:
        session = await self.run_orm(self.own_session, key)
        await self.in_thread(self.check_may_talk)
        run = runs.active(session.pk)
        if run is not None:
            run.ask_to_stop()
            return HttpResponse(status=204 if await run.stopped() else 202)
        claims = Claims(self.cache)
        asked = await self._ask(claims.ask(claims.ask_to_stop, session.pk))
        return HttpResponse(status=202 if asked else 204)

    def _bounds(self) -> Bounds:
        return Bounds(
            runs=self.max_runs,
            runs_of_user=self.max_runs_of_user,
            seconds=self.max_run_seconds,
            buffer_bytes=self.max_buffer_bytes,
            linger=self.replay_seconds,
            grace=self.stop_grace_seconds,
        )


async def _begun(run: Run) -> AsyncIterator[bytes]:
    """Begins an answer where it is read: under WSGI the response has a loop of its own."""
    run.begin()
    async for piece in run.answer.follow():
        yield piece


def _abandon(run: Run, claims: Claims) -> None:
    """Lets a message be sent again whose answer was not begun, because nobody read it."""
    if not run.begun:
        runs.leave(run)
        claims.release(run.answer)
        claims.forget(run.answer)


def _nothing() -> None:
    """Does nothing; the thread's connections are closed after it."""
