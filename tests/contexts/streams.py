"""Views that stream an answer: the recipes of the documentation, and a run that a view starts."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from agents import Agent, RunConfig, Runner
from django.contrib.auth.decorators import login_required
from django.db import transaction
from django.http import HttpRequest, StreamingHttpResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt
from openai.types.responses import ResponseTextDeltaEvent

from django_agent_sessions.adapters.openai_agents import DjangoSession
from django_agent_sessions.adapters.openai_agents.echo import EchoModel as OpenAIEcho
from django_agent_sessions.adapters.strands.echo import EchoModel as StrandsEcho
from django_agent_sessions.store import SessionStore
from tests.docs.recipes import pasted

CLIENT_FILE = "TEST_CLIENT_FILE"
"""The variable of the environment with a file that says the same to another process."""


class _Read(threading.Event):
    """Whether the test's client has read the first word of an answer.

    A model that waits for it has an answer that arrives in parts.
    """

    def is_set(self) -> bool:
        return self._file.exists() if self._file else super().is_set()

    def set(self) -> None:
        if self._file:
            self._file.touch()
        super().set()

    def clear(self) -> None:
        if self._file:
            self._file.unlink(missing_ok=True)
        super().clear()

    @property
    def _file(self) -> Path | None:
        name = os.environ.get(CLIENT_FILE)
        return Path(name) if name else None


first_word_was_read = _Read()


async def _wait_for_the_client() -> None:
    for _ in range(500):
        if first_word_was_read.is_set():
            return
        await asyncio.sleep(0.02)


class PatientOpenAI(OpenAIEcho):
    async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        number = 0
        async for event in super().stream_response(*args, **kwargs):
            if number == 1:
                await _wait_for_the_client()
            number += 1
            yield event


class PatientStrands(StrandsEcho):
    async def stream(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        words = 0
        async for event in super().stream(*args, **kwargs):
            words += "contentBlockDelta" in event
            if words == 2:
                await _wait_for_the_client()
            yield event


SDK_NAMES = {
    "Agent": Agent,
    "DjangoSession": DjangoSession,
    "ResponseTextDeltaEvent": ResponseTextDeltaEvent,
    "RunConfig": RunConfig,
    "Runner": Runner,
    "model": PatientOpenAI(),
}
WORDS = {
    "openai": pasted("Streaming with OpenAI", **SDK_NAMES)["openai_words"],
    "strands": pasted("Streaming with Strands", model=PatientStrands())["strands_words"],
}
ONE_BY_ONE = pasted("An async generator under WSGI")["one_by_one"]


def _recipe(heading: str, sdk: str) -> Any:
    given = {"strands_words": WORDS[sdk], "one_by_one": ONE_BY_ONE}
    return pasted(heading, **given)["stream_answer"]


@csrf_exempt
@transaction.non_atomic_requests
@login_required
async def under_asgi(request: HttpRequest, sdk: str, session_id: str) -> Any:
    await SessionStore(owner=await request.auser()).aopen(session_id)
    return await _recipe("A stream under ASGI", sdk)(request, session_id)


@csrf_exempt
@login_required
def under_wsgi(request: HttpRequest, sdk: str, session_id: str) -> Any:
    SessionStore(owner=request.user).open(session_id)
    return _recipe("A stream under WSGI", sdk)(request, session_id)


@csrf_exempt
@transaction.non_atomic_requests
@login_required
async def started_in_the_view(request: HttpRequest, sdk: str, session_id: str) -> Any:
    """A run whose loop has ended under WSGI, when the server reads the body."""
    session = DjangoSession(session_id, owner=await request.auser())
    result = Runner.run_streamed(
        Agent("assistant", model=OpenAIEcho()),
        request.POST["text"],
        session=session,
        run_config=RunConfig(tracing_disabled=True),
    )

    async def words() -> AsyncIterator[str]:
        async for event in result.stream_events():
            data = getattr(event, "data", None)
            if isinstance(data, ResponseTextDeltaEvent):
                yield data.delta

    return StreamingHttpResponse(words(), content_type="text/plain")


def parts_of(response: Any) -> Iterator[bytes]:
    """What a client reads, part by part; the model goes on when the first one was read."""
    while part := response.read1(100):
        yield part
        first_word_was_read.set()


urlpatterns = [
    path("asgi/<sdk>/<session_id>", under_asgi),
    path("wsgi/<sdk>/<session_id>", under_wsgi),
    path("view/<sdk>/<session_id>", started_in_the_view),
]
