"""``python -m benchmarks.events``: what idle streams of events take of a server.

One uvicorn process, SQLite or PostgreSQL (``--postgresql``; PGHOST, PGPORT, PGUSER, PGPASSWORD),
a session per stream.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import django
import psutil
from django.conf import settings
from django.urls import path

from . import base_settings, postgresql

IDLE_SECONDS = 20
urlpatterns: list[Any] = []


def configure(database: str) -> None:
    name = os.environ["EVENTS_DATABASE"]
    entry: dict[str, Any] = {"ENGINE": "django.db.backends.sqlite3", "NAME": name}
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
    )
    django.setup()


def serve(database: str) -> None:
    configure(database)
    import uvicorn
    from django.core.asgi import get_asgi_application

    from django_agent_sessions.rest.events import SessionEventsView

    urlpatterns.append(path("<str:session>/", SessionEventsView.as_view(max_streams=100_000)))
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        # A client that asks too early waits, and is not refused.
        listening.listen(1024)
        print(listening.getsockname()[1], flush=True)
        config = uvicorn.Config(get_asgi_application(), log_level="error", lifespan="off")
        config.timeout_graceful_shutdown = 1
        uvicorn.Server(config).run(sockets=[listening])


def fill(streams: int) -> tuple[list[Any], dict[str, str]]:
    """Make a session for each stream; return their keys, and the cookies of their owner."""
    from django.contrib.auth import get_user_model
    from django.core.management import call_command
    from django.db import connections
    from django.test import Client

    from django_agent_sessions.store import SessionStore

    call_command("migrate", verbosity=0)
    user = get_user_model().objects.create_user("ada")
    store = SessionStore(owner=user)
    keys = []
    for number in range(streams):
        session = store.create(f"session {number}")
        agent = store.agents.open(session, dialect="strands")
        store.append_many(agent, [{"role": "user", "content": [{"text": "Hello"}]}] * 10)
        keys.append(session.id)
    browser = Client()
    browser.force_login(user)
    connections.close_all()
    return keys, {name: morsel.value for name, morsel in browser.cookies.items()}


def measure(streams: int, database: str) -> None:
    configure(database)
    keys, cookies = fill(streams)
    command = [sys.executable, "-m", "benchmarks.events", "--serve"]
    command += ["--postgresql"] if database == "postgresql" else []
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        address = f"http://127.0.0.1:{int(server.stdout.readline())}"
        listen(psutil.Process(server.pid), address, keys, cookies, database)
    finally:
        server.terminate()
        server.wait(20)
        server.stdout.close()


def listen(
    server: psutil.Process,
    address: str,
    keys: Sequence[Any],
    cookies: dict[str, str],
    database: str,
) -> None:
    """Open a stream for each session, and print what the server takes while they are idle."""
    import httpx

    limits = httpx.Limits(max_connections=None)
    with httpx.Client(cookies=cookies, limits=limits, timeout=60) as client, ExitStack() as opened:

        def begin(key: Any) -> None:
            response = opened.enter_context(client.stream("GET", f"{address}/{key}/"))
            assert any(line == "event: ready" for line in response.iter_lines())

        client.head(f"{address}/{keys[0]}/").raise_for_status()
        before = server.memory_info().rss
        began = time.monotonic()
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(begin, keys))
        took = time.monotonic() - began
        time.sleep(3)
        server.cpu_percent()
        share = server.cpu_percent(IDLE_SECONDS)
        after = server.memory_info().rss
        print(f"{database}, {len(keys)} streams, opened in {took:.1f} s")
        print(
            f"memory: {before / 2**20:.0f} MB before, {after / 2**20:.0f} MB with them "
            f"({(after - before) / 1024 / len(keys):.0f} KB each)"
        )
        print(f"processor: {share:.1f}% of one; threads: {server.num_threads()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--postgresql", action="store_true")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve("postgresql" if given.postgresql else "sqlite")
    elif given.postgresql:
        name = os.environ["EVENTS_DATABASE"] = f"agent_sessions_events_{os.getpid()}"
        with postgresql.database(name):
            measure(given.streams, "postgresql")
    else:
        with tempfile.TemporaryDirectory() as directory:
            os.environ["EVENTS_DATABASE"] = str(Path(directory) / "events.sqlite3")
            measure(given.streams, "sqlite")


if __name__ == "__main__":
    main()
