"""A server for :mod:`benchmarks.events`: one uvicorn process that streams, and appends when asked.

``python -m benchmarks.event_server DATABASE NAME [LISTEN]`` prints its port.
"""

from __future__ import annotations

import socket
import sys
import time
from typing import Any

import django
from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path

from . import base_settings, postgresql
from .messages import strands_messages

urlpatterns: list[Any] = []


def configure(database: str, name: str, listen: str = "") -> None:
    """Configure Django for a database, with the apps that the API needs."""
    entry: dict[str, Any] = {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": name,
        # As the documentation recommends.
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode=WAL;",
        },
    }
    settings.configure(
        SECRET_KEY=base_settings.SECRET_KEY,
        ALLOWED_HOSTS=["*"],
        DATABASES={"default": postgresql.entry(name) if database == "postgresql" else entry},
        USE_TZ=True,
        ROOT_URLCONF=__name__,
        DEFAULT_AUTO_FIELD=base_settings.DEFAULT_AUTO_FIELD,
        INSTALLED_APPS=[
            "django.contrib.sessions",
            "rest_framework",
            *base_settings.INSTALLED_APPS,
        ],
        REST_FRAMEWORK={
            "DEFAULT_THROTTLE_RATES": {"agent-sessions": None, "agent-sessions-events": None}
        },
        MIDDLEWARE=[
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
        ],
        AGENT_SESSIONS={"LISTEN_DATABASE": listen or None},
    )
    django.setup()


async def append(request: HttpRequest, sessions: str) -> HttpResponse:
    """Append a message to each of these sessions, one after the other, as agents here do.

    Returns when each was acknowledged, on the clock that all processes of a machine share, and the
    seconds that the last one took.
    """
    from django_agent_sessions.db import bridge
    from django_agent_sessions.store import SessionStore
    from django_agent_sessions.values.owners import EVERYBODY

    store = SessionStore(owner=EVERYBODY)
    acknowledged = []
    seconds = 0.0
    for name in sessions.split(","):
        if name not in _agents:
            _agents[name] = await bridge.arun_orm(_open_agent, store, name)
        began = time.monotonic()
        await bridge.arun_orm(store.append, _agents[name], _MESSAGE)
        acknowledged.append(time.monotonic())
        seconds = acknowledged[-1] - began
    return JsonResponse({"seconds": seconds, "acknowledged": acknowledged})


def _open_agent(store: Any, name: str) -> Any:
    return store.agents.open(store.open(name), dialect="strands")


_agents: dict[str, Any] = {}
_MESSAGE = strands_messages(1)[0]


async def processor(request: HttpRequest) -> HttpResponse:
    """Return the seconds of processor time that this process took."""
    return JsonResponse({"seconds": time.process_time()})


def serve() -> None:
    """Serve until terminated."""
    configure(*sys.argv[1:])
    import uvicorn
    from django.core.asgi import get_asgi_application

    from django_agent_sessions.rest.events import SessionEventsView

    events = SessionEventsView.as_view(max_streams=100_000, max_seconds=3600)
    urlpatterns.extend(
        [
            path("processor/", processor),
            path("append/<str:sessions>/", append),
            path("<str:session>/", events),
        ]
    )
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        # A client that asks too early waits, and is not refused.
        listening.listen(1024)
        print(listening.getsockname()[1], flush=True)
        config = uvicorn.Config(get_asgi_application(), log_level="error", lifespan="off")
        config.timeout_graceful_shutdown = 1
        uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    serve()
