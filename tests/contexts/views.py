"""Views that talk to an agent, as a project would write them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from asgiref.sync import async_to_sync
from django.contrib.auth import get_user_model
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import path

from django_agent_sessions.db.bridge import joined, run_orm
from django_agent_sessions.models import Session

from .chats import Agent, Call, Step, sdk_named


def sync_view(request: HttpRequest, sdk: str, session_id: str, text: str) -> HttpResponse:
    answer = sdk_named(sdk)(session_id).say(text)
    # The view sees what its agent wrote.
    assert Session.objects.filter(session_id=session_id).exists()
    return _answer(request, answer)


def bridging_view(request: HttpRequest, sdk: str, session_id: str, text: str) -> HttpResponse:
    return _answer(request, async_to_sync(sdk_named(sdk)(session_id).asay)(text))


@transaction.non_atomic_requests
async def async_view(request: HttpRequest, sdk: str, session_id: str, text: str) -> HttpResponse:
    agent = await sdk_named(sdk).load(session_id)
    answer = await agent.asay(text)
    assert await Session.objects.filter(session_id=session_id).aexists()
    return _answer(request, answer)


@transaction.non_atomic_requests
async def building_view(request: HttpRequest, sdk: str, session_id: str, text: str) -> HttpResponse:
    """An async view whose agent is not loaded ahead, but built in the loop."""
    return _answer(request, await sdk_named(sdk)(session_id).asay(text))


def _answer(request: HttpRequest, answer: str) -> HttpResponse:
    if "fail" in request.GET:
        raise Http404("after the agent ran")
    return HttpResponse(answer)


def add(name: str) -> str:
    """Writes a row of its own."""
    run_orm(get_user_model().objects.create_user, name)
    return "added"


def _agent_with_tool(sdk: str, session_id: str, text: str) -> Agent:
    steps: list[Step] = [Call("add", {"name": text}), "done"]
    return sdk_named(sdk)(session_id, steps=steps, tools=[add])


def tool_view(request: HttpRequest, sdk: str, session_id: str, text: str) -> HttpResponse:
    """A view whose agent has a sync tool."""
    return _answer(request, _agent_with_tool(sdk, session_id, text).say(text))


def bridging_tool_view(request: HttpRequest, sdk: str, session_id: str, text: str) -> HttpResponse:
    """The same in the loop of an ASGI server, whose threads are those of all requests."""
    with joined() if "joined" in request.GET else nullcontext():
        agent = _agent_with_tool(sdk, session_id, text)
        return _answer(request, async_to_sync(agent.asay)(text))


VIEWS: dict[str, Callable[..., Any]] = {
    "sync": sync_view,
    "bridging": bridging_view,
    "async": async_view,
    "building": building_view,
    "tool": tool_view,
    "bridging-tool": bridging_tool_view,
}

urlpatterns = [path(f"{name}/<sdk>/<session_id>/<text>", view) for name, view in VIEWS.items()]
