"""``python -m benchmarks.events``: what idle streams of events take of a server.

One uvicorn process, SQLite or PostgreSQL (``--postgresql``; PGHOST, PGPORT, PGUSER, PGPASSWORD),
a session per stream. It needs Linux, which tells in ``/proc`` what a process takes.
"""

from __future__ import annotations

import argparse
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import django
from django.conf import settings
from django.urls import path

IDLE_SECONDS = 20


def configure(database: str) -> None:
    name = os.environ["EVENTS_DATABASE"]
    given: dict[str, Any] = {"ENGINE": "django.db.backends.sqlite3", "NAME": name}
    if database == "postgresql":
        given = {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": name,
            "HOST": os.environ.get("PGHOST", "127.0.0.1"),
            "PORT": os.environ.get("PGPORT", "5432"),
            "USER": os.environ.get("PGUSER", "postgres"),
            "PASSWORD": os.environ.get("PGPASSWORD", ""),
        }
    settings.configure(
        SECRET_KEY="benchmark",
        ALLOWED_HOSTS=["*"],
        DATABASES={"default": given},
        USE_TZ=True,
        ROOT_URLCONF=__name__,
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        INSTALLED_APPS=[
            "django.contrib.auth",
            "django.contrib.contenttypes",
            "django.contrib.sessions",
            "rest_framework",
            "django_agent_sessions",
        ],
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
        # So that who asks too early waits, and is not refused.
        listening.listen(1024)
        print(listening.getsockname()[1], flush=True)
        config = uvicorn.Config(get_asgi_application(), log_level="error", lifespan="off")
        config.timeout_graceful_shutdown = 1
        uvicorn.Server(config).run(sockets=[listening])


urlpatterns: list[Any] = []


def memory(pid: int) -> float:
    """Megabytes."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def processor(pid: int) -> float:
    """Seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(streams: int, database: str) -> None:
    configure(database)
    import httpx
    from django.contrib.auth import get_user_model
    from django.core.management import call_command
    from django.db import connections
    from django.test import Client

    from django_agent_sessions.store import SessionStore

    call_command("migrate", verbosity=0)
    user = get_user_model().objects.create_user("ada")
    store = SessionStore(owner=user)
    keys = [store.create(f"session {number}").id for number in range(streams)]
    for number in range(streams):
        agent = store.agents.open(store.get(f"session {number}"), dialect="strands")
        store.append_many(agent, [{"role": "user", "content": [{"text": "Hello"}]}] * 10)
    browser = Client()
    browser.force_login(user)
    cookies = {name: morsel.value for name, morsel in browser.cookies.items()}
    connections.close_all()
    command = [sys.executable, "-m", "benchmarks.events", "--serve"]
    command += ["--postgresql"] if database == "postgresql" else []
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    address = f"http://127.0.0.1:{int(server.stdout.readline())}"
    limits = httpx.Limits(max_connections=None)
    try:
        with (
            httpx.Client(cookies=cookies, limits=limits, timeout=60) as client,
            ExitStack() as all_,
        ):
            client.head(f"{address}/{keys[0]}/").raise_for_status()
            before = memory(server.pid)
            began = time.monotonic()

            def begin(key: Any) -> Any:
                response = all_.enter_context(client.stream("GET", f"{address}/{key}/"))
                lines = response.iter_lines()
                assert any(line == "event: ready" for line in lines)
                return lines

            with ThreadPoolExecutor(8) as pool:
                opened = list(pool.map(begin, keys))
            took = time.monotonic() - began
            time.sleep(3)
            used, threads = processor(server.pid), len(os.listdir(f"/proc/{server.pid}/task"))
            time.sleep(IDLE_SECONDS)
            share = (processor(server.pid) - used) / IDLE_SECONDS
            after = memory(server.pid)
            print(f"{database}, {len(opened)} streams, opened in {took:.1f} s")
            print(f"memory: {before:.0f} MB before, {after:.0f} MB with them "
                  f"({(after - before) * 1024 / streams:.0f} KB each)")  # fmt: skip
            print(f"processor: {share:.1%} of one; threads: {threads}")
    finally:
        server.terminate()
        server.wait(20)
        server.stdout.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--postgresql", action="store_true")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    database = "postgresql" if given.postgresql else "sqlite"
    if given.serve:
        serve(database)
        return
    with tempfile.TemporaryDirectory() as directory:
        os.environ["EVENTS_DATABASE"] = str(Path(directory) / "events.sqlite3")
        if database == "sqlite":
            measure(given.streams, database)
            return
    measure_on_server(given.streams)


def measure_on_server(streams: int) -> None:
    import psycopg
    from psycopg import sql

    name = os.environ["EVENTS_DATABASE"] = f"agent_sessions_events_{os.getpid()}"
    host, user = os.environ.get("PGHOST", "127.0.0.1"), os.environ.get("PGUSER", "postgres")
    with psycopg.connect(host=host, user=user, dbname="postgres", autocommit=True) as server:
        server.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            measure(streams, "postgresql")
        finally:
            drop = sql.SQL("DROP DATABASE {} WITH (FORCE)")
            server.execute(drop.format(sql.Identifier(name)))


if __name__ == "__main__":
    main()
