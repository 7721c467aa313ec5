"""Views that talk to an agent, as a project with ``ATOMIC_REQUESTS`` writes them."""

from __future__ import annotations

from collections.abc import Callable

from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import path

from django_agent_sessions.exceptions import ConfigurationError

from .agents import AGENTS, asay, declared, say


def atomic(request: HttpRequest, sdk: str, session_id: str, text: str) -> HttpResponse:
    with declared(sdk):
        return HttpResponse(say(sdk, session_id, text))


@transaction.non_atomic_requests
def plain(request: HttpRequest, sdk: str, session_id: str, text: str) -> HttpResponse:
    return HttpResponse(say(sdk, session_id, text))


@transaction.non_atomic_requests
async def asynchronous(request: HttpRequest, sdk: str, session_id: str, text: str) -> HttpResponse:
    return HttpResponse(await asay(sdk, session_id, text))


def undo(request: HttpRequest, sdk: str, session_id: str, text: str) -> HttpResponse:
    """Fail after the agent has run. Nothing declares that the thread waits."""
    say(sdk, session_id, text)
    raise Http404(text)


@transaction.non_atomic_requests
def ready(request: HttpRequest) -> HttpResponse:
    return HttpResponse(f"ready: {', '.join(AGENTS)}")


class Refusal:
    """Middleware that answers 503 where no agent can run."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        if isinstance(error, ConfigurationError):
            return HttpResponse(str(error), status=503)
        return None


VIEWS = {"atomic": atomic, "plain": plain, "async": asynchronous, "undo": undo}
urlpatterns = [
    path("ready", ready),
    *(path(f"{name}/<sdk>/<session_id>/<text>", view) for name, view in VIEWS.items()),
]
