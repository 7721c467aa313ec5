"""The recipes that stream answers, on the servers of the documentation as real processes."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import ROOT, unmeasured

from .chats import NAMES, said, turns
from .streams import CLIENT_FILE
from .test_streams import post

pytestmark = [pytest.mark.process, pytest.mark.django_db(transaction=True)]

_WSGI = "gunicorn django.core.wsgi:get_wsgi_application() --bind 127.0.0.1:{port}"
SERVERS = {
    "runserver": ("wsgi", "django runserver --noreload 127.0.0.1:{port}"),
    "gunicorn sync": ("wsgi", f"{_WSGI} --worker-class sync"),
    "gunicorn gthread": ("wsgi", f"{_WSGI} --worker-class gthread --threads 3"),
    "uvicorn": ("asgi", "uvicorn --factory django.core.asgi:get_asgi_application --port {port}"),
}


@contextlib.contextmanager
def served(command: str, folder: Path) -> Iterator[str]:
    """Start a server, and yield its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {
        **unmeasured(),
        "DJANGO_SETTINGS_MODULE": "tests.contexts.server_settings",
        CLIENT_FILE: str(folder / "read"),
    }
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", *command.format(port=port).split()],
            cwd=ROOT,
            env=environment,
            stdout=log,
            stderr=log,
        )
    try:
        for _ in range(600):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            assert process.poll() is None, (folder / "log").read_text()
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.filterwarnings("ignore:StreamingHttpResponse must consume")
def test_each_server_streams_and_stores_the_answers_of_both_sdks(server, tmp_path, monkeypatch):
    kind, command = SERVERS[server]
    other = {"wsgi": "asgi", "asgi": "wsgi"}[kind]
    monkeypatch.setitem(os.environ, CLIENT_FILE, str(tmp_path / "read"))

    with served(command, tmp_path) as address:
        for sdk in NAMES:
            status, parts = post(address, f"/{kind}/{sdk}/{sdk}", "hello")

            assert (status, b"".join(parts).strip()) == (200, b"You said: hello")
            assert len(parts) > 1
            assert said(sdk) == turns("hello")

            # The recipe of the other kind of server comes all at once, and is stored as well.
            status, parts = post(address, f"/{other}/{sdk}/{sdk}-2", "hello", all_at_once=True)

            assert (status, b"".join(parts).strip()) == (200, b"You said: hello")
            assert said(f"{sdk}-2") == turns("hello")

        if kind == "wsgi":
            # A run that the view starts, whose loop ends with it: an error, never an empty answer.
            assert post(address, "/view/openai/lost", "hello")[0] == 500
            assert said("lost") == []
            assert "'lost'" in (tmp_path / "log").read_text()
