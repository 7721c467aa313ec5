"""The views of a chat with ``useChat``."""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any, ClassVar, TypeVar
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.core.handlers.asgi import ASGIRequest
from django.http import Http404, HttpResponse
from django.urls import URLPattern, path
from rest_framework.exceptions import APIException, ValidationError
from rest_framework.response import Response

from django_agent_sessions.models import Session
from django_agent_sessions.models.roles import has_role
from django_agent_sessions.rest.access import SCOPE
from django_agent_sessions.rest.base import ThrottleScope
from django_agent_sessions.rest.events import EventStreamRenderer
from django_agent_sessions.rest.login_check import LoginCheck
from django_agent_sessions.rest.pagination import BEFORE, LIMIT
from django_agent_sessions.rest.problems import Conflict, Unavailable
from django_agent_sessions.rest.streaming import event_stream_response

from .answers import Answer
from .chat import FORMATS, REGENERATE, Chat, ChatRequest, MessageLimits, parse_chat_request
from .chat_sessions import ChatSessionAPI
from .claims import Claims, Refusal, Stored
from .run_registry import runs
from .runs import Run, RunLimits
from .stream_writer import CUT, HEADERS, error_end

CHAT = "chat"
STREAM = "stream"
STOP = "stop"
MESSAGES = "messages"


UNANSWERED_PARAMETER = "unanswered"
"""The query parameter of a client that has the user's message, but no answer to it."""

_PARAMETERS = {MESSAGES: (BEFORE, LIMIT), STREAM: (UNANSWERED_PARAMETER,)}
"""The query parameters of the URLs."""

R = TypeVar("R")

logger = logging.getLogger(__name__)


class ChatView(ChatSessionAPI):
    """A chat with an agent of the project, for ``useChat`` of the AI SDK.

    A subclass overrides :meth:`respond`; :func:`~.urls.chat_urls` returns its URLs. The attributes
    are limits.
    """

    route: ClassVar[str] = CHAT
    """Which of the chat's URLs this view serves."""

    # Not in the OpenAPI document: the protocol is defined by the AI SDK.
    schema: Any = None
    throttle_scope: str | None = ThrottleScope.CHAT

    error_text: ClassVar[str] = "The assistant could not answer. Try again in a moment."
    """The text that the user sees if the agent fails; the error's own text is never shown."""

    max_characters: ClassVar[int] = 100_000
    max_files: ClassVar[int] = 10
    max_file_bytes: ClassVar[int] = 10 * 1024 * 1024
    """The size of a file; Django's ``DATA_UPLOAD_MAX_MEMORY_SIZE`` limits the whole request."""

    file_formats: ClassVar[Mapping[str, str]] = FORMATS
    """The accepted media types of files, and their names in agent frameworks."""

    max_runs: ClassVar[int] = 100
    """Concurrent answers in a process; further requests are a 503 with ``Retry-After``."""

    max_runs_of_user: ClassVar[int] = 10
    """Concurrent answers of one user in a process."""

    max_run_seconds: ClassVar[float] = 600
    """The longest duration of an answer; then it is stopped."""

    max_buffer_bytes: ClassVar[int] = 8 * 1024 * 1024
    """How much of a running answer is buffered for a client that reconnects."""

    replay_seconds: ClassVar[float] = 30
    """For how long a finished answer is replayed to a client that repeats its request."""

    check_seconds: ClassVar[float] = 30
    """Seconds after which a response checks that its user is still logged in."""

    stop_grace_seconds: ClassVar[float] = 3
    """How long an agent may take to stop by itself; then its task is cancelled."""

    def respond(self, chat: Chat) -> Any:
        """Return the agent's events; to be overridden, usually as ``async def``.

        That is the result of ``agent.stream_async(chat.strands_input)`` of Strands, or of
        ``Runner.run_streamed(agent, chat.openai_input, session=…)`` of the OpenAI Agents SDK.
        """
        raise NotImplementedError("subclasses must override respond()")

    async def regenerate(self, incoming: ChatRequest) -> Any:
        """Return a response with a new answer to the last message; a 409 unless overridden."""
        raise Conflict("Answers cannot be regenerated. Send the message again.")

    async def answer(self, incoming: ChatRequest) -> Any:
        """Return a response with the answer to a message.

        If ``regenerate`` calls it, the message is the last one in the session, which the agent must
        not find answered.
        """
        new_chat, answer = await self.run_orm(self.open_chat, incoming)
        await self.accept(new_chat)
        return await self._start(new_chat, answer)

    async def accept(self, chat: Chat) -> None:
        """Raise an ``APIException`` if the message must not be answered; to be overridden."""

    # --- handlers ----------------------------------------------------------------------------

    def get_renderers(self) -> list[Any]:
        """Return the renderers, with one for clients that accept event streams only."""
        streams = [EventStreamRenderer()] if self.route in (CHAT, STREAM) else []
        return [*super().get_renderers(), *streams]

    def _known_parameters(self, methods: Iterable[str]) -> set[str]:
        return {*super()._known_parameters(methods), *_PARAMETERS.get(self.route, ())}

    async def post(self, request: Any, chat: str = "") -> Any:
        """Answer a message, or stop an answer."""
        if SCOPE in request.query_params:
            # A permission to read other users' sessions is none to chat in them.
            raise ValidationError(
                {SCOPE: ["A POST has no scope: only messages are read with one."]}
            )
        if self.route == STOP:
            return await self._stop(chat)
        incoming = await self.in_thread(self._read)
        if incoming.trigger == REGENERATE:
            return await self.regenerate(incoming)
        return await self.answer(incoming)

    async def get(self, request: Any, chat: str = "") -> Any:
        """Return the messages, or the running answer."""
        if self.route == MESSAGES:
            loop = asyncio.get_running_loop()
            page, link = await self.in_thread(self.read_messages, chat, loop)
            return Response(page, headers={"Link": link} if link else None)
        try:
            session = await self.run_orm(self.chat_session, chat)
        except Http404:
            # Clients also request chats that have no session yet.
            return HttpResponse(status=204)
        answer = runs.recent(session.pk)
        if answer is None or not answer.can_replay(session.redaction_epoch):
            return HttpResponse(status=204)
        if answer.over and request.query_params.get(UNANSWERED_PARAMETER) != "true":
            return HttpResponse(status=204)
        await self.in_thread(self.record_access, session, view="ai-sdk-stream")
        loaded_id = await self.run_orm(self.loaded_id, answer) if answer.over else ""
        pieces = answer.follow(loaded_id)
        return self._stream_response(pieces, None if self.owns(session) else session.pk)

    # --- steps of the handlers ---------------------------------------------------------------

    def _read(self) -> ChatRequest:
        self.check_can_write()
        limits = MessageLimits(
            self.max_characters, self.max_files, self.max_file_bytes, self.file_formats
        )
        return parse_chat_request(self.request.data, limits)

    def check_room(self) -> None:
        """Reject a chat if its user has too many answers, before its session is created."""
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
        existing = runs.enter(run, bounds)
        shared = None if chat.owner is chat.user else chat.key
        if existing is not None:
            return await self._replay(existing, answer, shared)
        if answer.refusal is not None:
            runs.leave(run)
            raise Conflict(answer.refusal.value)
        # A task of its own: a client that disconnects now has still sent its message.
        claim_task = answer.claim_task = asyncio.create_task(self._claim(run, claims))
        refusal = await asyncio.shield(claim_task)
        if refusal is not None:
            raise Conflict(refusal.value)
        if run.begun:
            return self._stream_response(answer.follow(), shared)
        return self._stream_response(_begin(run), shared, functools.partial(_abandon, run, claims))

    async def _claim(self, run: Run, claims: Claims) -> Refusal | None:
        """Claim the session and the message; under ASGI, start the answer as well."""
        refusal: Refusal | None = Refusal.BUSY
        stored = functools.partial(
            self.run_orm, self.stored_after, run.chat.key, run.answer.message_id
        )
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
        """Await a claim; raise ``Unavailable`` if the cache fails."""
        try:
            return await asking
        except (APIException, Http404, asyncio.CancelledError):
            raise
        except Exception as error:
            # The text of the error may contain the address of the cache and its password.
            logger.error("a message cannot be claimed in the cache: %s", type(error).__name__)
            detail = "Messages cannot be answered at the moment. Try again soon."
            raise Unavailable(detail) from None

    async def _replay(self, earlier: Answer, answer: Answer, shared: UUID | None) -> Any:
        await earlier.wait_claimed()
        if earlier.can_replay(answer.epoch):
            return self._stream_response(earlier.follow(), shared)
        refusal = answer.refusal
        if not earlier.over:
            refusal = Refusal.RUNNING
        elif refusal is None:
            key, before = earlier.message_id, earlier.before
            found = await self.run_orm(self.stored_after, answer.session, key, before)
            refusal = Refusal.SENT if found is Stored.ANSWER else Refusal.UNANSWERED
        raise Conflict(refusal.value)

    def _stream_response(
        self,
        pieces: AsyncIterator[bytes],
        shared: UUID | None,
        when_closed: Callable[[], None] | None = None,
    ) -> Any:
        body = self._without_connections(pieces, shared)
        return event_stream_response(self.request, body, headers=HEADERS, when_closed=when_closed)

    async def _without_connections(
        self, pieces: AsyncIterator[bytes], shared: UUID | None = None
    ) -> AsyncIterator[bytes]:
        """Iterate a stream without connections, until the user has logged out.

        The stream of a participant also ends if the session is not shared any more. A stream that
        ends early ends with an error.
        """
        # In a thread, whose connections are closed then: a middleware may have opened some after
        # the view.
        login = await self.in_thread(LoginCheck, self.request)
        checked = time.monotonic()
        try:
            async for piece in pieces:
                if time.monotonic() - checked >= self.check_seconds:
                    if not await self._may_follow(login, shared):
                        yield error_end(CUT)
                        return
                    checked = time.monotonic()
                yield piece
        except Exception as error:
            # Under HTTP without chunks, a connection that is closed looks like the end.
            logger.error("a stream of an answer failed with %s", type(error).__name__)
            yield error_end(CUT)
        finally:
            close: Any = getattr(pieces, "aclose", None)
            if close is not None:
                await close()

    async def _may_follow(self, login: LoginCheck, shared: UUID | None) -> bool:
        """Return whether the user is still logged in, and may read a shared session."""
        if not await self.in_thread(_is_logged_in, login):
            return False
        return shared is None or bool(await self.in_thread(self._has_role, shared))

    def _has_role(self, session: UUID) -> bool:
        rows = Session.objects.using(self.using).filter(has_role(self.request.user))
        return rows.filter(pk=session).exists()

    async def _stop(self, key: str) -> HttpResponse:
        session = await self.run_orm(self.chat_session, key)
        await self.in_thread(self.check_can_write)
        if not self.may_write(session):
            raise PermissionDenied
        run = runs.active(session.pk)
        if run is not None:
            run.ask_to_stop()
            return HttpResponse(status=204 if await run.stopped() else 202)
        claims = Claims(self.cache)
        requested = await self._ask(claims.ask(claims.ask_to_stop, session.pk))
        return HttpResponse(status=202 if requested else 204)

    def _bounds(self) -> RunLimits:
        return RunLimits(
            runs=self.max_runs,
            runs_of_user=self.max_runs_of_user,
            seconds=self.max_run_seconds,
            buffer_bytes=self.max_buffer_bytes,
            linger=self.replay_seconds,
            grace=self.stop_grace_seconds,
        )


async def _begin(run: Run) -> AsyncIterator[bytes]:
    """Start an answer when its response is read: under WSGI the response has a loop of its own."""
    run.begin()
    async for piece in run.answer.follow():
        yield piece


def _abandon(run: Run, claims: Claims) -> None:
    """Release a message whose answer was never started, because the response was not read."""
    if not run.begun:
        runs.leave(run)
        claims.release(run.answer)
        claims.forget(run.answer)


def _is_logged_in(login: LoginCheck) -> bool:
    user = login.current_user()
    return user is not None and login.is_valid(user)


_READ = ["get", "options"]
_WRITE = ["post", "options"]


def chat_urls(view: type[ChatView], prefix: str, *, name: str = "chat") -> list[URLPattern]:
    """Return the URLs of a chat that ``useChat`` expects.

    Args:
        view: The view of the chat.
        prefix: The path without a slash at its end, which is ``api`` in the client.
        name: The name of the first URL, and the prefix of the others: ``name``, ``name-stream``,
            ``name-stop``, ``name-messages``.

    Returns:
        ``POST prefix`` answers a message; ``GET prefix/{id}/stream`` resumes an answer;
        ``POST prefix/{id}/stop`` stops one; ``GET prefix/{id}/messages`` is the transcript.
    """
    base = prefix.rstrip("/")
    shared = {"throttle_scope": ThrottleScope.ALL}
    return [
        path(base, view.as_view(route=CHAT, http_method_names=_WRITE), name=name),
        path(
            f"{base}/<path:chat>/stream",
            view.as_view(route=STREAM, http_method_names=_READ, **shared),
            name=f"{name}-stream",
        ),
        path(
            f"{base}/<path:chat>/stop",
            view.as_view(route=STOP, http_method_names=_WRITE, **shared),
            name=f"{name}-stop",
        ),
        path(
            f"{base}/<path:chat>/messages",
            view.as_view(route=MESSAGES, http_method_names=_READ, **shared),
            name=f"{name}-messages",
        ),
    ]
