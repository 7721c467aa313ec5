"""The tutorial, followed as a reader follows it: its files, its commands, and its page."""

from __future__ import annotations

import html
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.processes import ROOT

PAGE = (ROOT / "docs/tutorial.md").read_text()
FENCE = re.compile(
    r"```(?:console\n(?P<commands>.*?)|\{code-block\} \w+\n:caption: (?P<file>\S+)"
    r"(?P<end> \(at the end\))?\n\n(?P<text>.*?))```",
    re.DOTALL,
)
CARD = "4111 1111 1111 1111"
ENVIRONMENT = {
    **{key: value for key, value in os.environ.items() if not key.startswith("DJANGO_")},
    # The environment of this test stands for the one that the page creates.
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    "PYTHONPATH": "",
}
INSTALLATION = [
    "python3 -m venv venv",
    ". venv/bin/activate",
    'pip install "./django-agent-sessions[strands]"',
]
SERVER = "python manage.py runserver"


def run(command: str, folder: Path) -> str:
    done = subprocess.run(  # noqa: S602 - our own page
        command, shell=True, cwd=folder, env=ENVIRONMENT, check=False, capture_output=True
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


class Browser:
    """What a browser does: it follows redirects, and sends the forms of a page."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    def open(self, path: str) -> str:
        answer = self._client.get(path)
        assert answer.status_code == 200
        return html.unescape(answer.text)

    def send(self, path: str, **fields: str) -> str:
        token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', self.open("/"))
        assert token
        answer = self._client.post(path, data={"csrfmiddlewaretoken": token[1], **fields})
        assert answer.status_code == 200
        return html.unescape(answer.text)


@contextmanager
def serving(folder: Path) -> Iterator[Browser]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "manage.py", "runserver", "--noreload", str(port)]
    server = subprocess.Popen(
        command, cwd=folder, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    url = f"http://127.0.0.1:{port}"
    try:
        with httpx.Client(base_url=url, follow_redirects=True, timeout=60) as client:
            while server.poll() is None:
                try:
                    client.get("/")
                    break
                except httpx.TransportError:
                    time.sleep(0.1)
            yield Browser(client)
    finally:
        server.terminate()
        server.communicate()


@pytest.fixture(scope="module")
def project(tmp_path_factory: Any, other_process: None) -> tuple[Path, list[str]]:
    """The folder ``mysite``, made as the page says, and the commands that are left."""
    folder = tmp_path_factory.mktemp("tutorial")
    left: list[str] = []
    for match in FENCE.finditer(PAGE):
        if match["file"]:
            file = folder / match["file"]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text((file.read_text() if match["end"] else "") + match["text"])
            continue
        for command in match["commands"].splitlines():
            if command.startswith("cd "):
                folder /= command.removeprefix("cd ")
            elif command == SERVER or left:
                left.append(command)
            elif command not in INSTALLATION:
                run(command, folder)
    return folder, left


def test_the_tutorial_leads_to_a_chat_page_with_redaction(project) -> None:
    # Runs the commands of a new project, and its server twice: many seconds.
    folder, (server, search) = project
    assert server == SERVER

    with serving(folder) as browser:
        browser.send("/admin/login/?next=/", username="ada", password="tutorial")
        assert "You said: Hello" in browser.send("/say/", text="Hello")

    with serving(folder) as browser:
        browser.send("/admin/login/?next=/", username="ada", password="tutorial")
        said = browser.send("/say/", text=f"My card is {CARD}")
        assert f"You said: My card is {CARD}" in said
        assert "You said: Hello" in said
        redacted = browser.send("/forget/", text=CARD)
        assert CARD not in redacted
        assert redacted.count("My card is [REDACTED]") == 2
        assert "Redacted in 2 messages." in redacted
        assert "Redacted in 0 messages." in browser.send("/forget/", text=CARD)
        assert "You said: Hello again" in browser.send("/say/", text="Hello again")
        assert "chat-1" in browser.open("/admin/agent_sessions/session/")
        audit = browser.open("/admin/agent_sessions/auditevent/")
        assert "Requested by the user" in audit
        assert CARD not in audit

    assert run(search, folder) == "False\n"


def test_the_page_installs_before_all_else() -> None:
    first = FENCE.search(PAGE)

    assert first
    assert first["commands"].splitlines()[:3] == INSTALLATION
