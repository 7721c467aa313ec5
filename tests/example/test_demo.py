from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from example_project.chat.demo.steps import SECRET
from tests.processes import ROOT, unmeasured

from .conftest import REAL_MODELS

pytestmark = pytest.mark.process


def start(command: str, *arguments: object, **environment: object) -> subprocess.Popen[str]:
    hidden = {*REAL_MODELS, "DJANGO_SETTINGS_MODULE"}
    kept = {name: value for name, value in unmeasured().items() if name not in hidden}
    return subprocess.Popen(
        [sys.executable, "manage.py", command, *map(str, arguments)],
        cwd=ROOT,
        env={**kept, **{name: str(value) for name, value in environment.items()}},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def old_database(tmp_path: Path) -> Path:
    """A database that an earlier demonstration left, its write-ahead log included."""
    database = tmp_path / "demo.sqlite3"
    for suffix in ("", "-wal", "-shm"):
        Path(f"{database}{suffix}").write_bytes(b"not a database")
    return database


def test_the_demonstration_keeps_its_promises_and_ends(old_database) -> None:
    demo = start("demo", "--no-serve", "--database", old_database)
    said, complaints = demo.communicate(timeout=150)

    assert demo.returncode == 0, complaints
    assert complaints == ""
    for promised in (
        "Models: offline",
        "kills itself (SIGKILL)",
        "restored   12 messages, state {'lookups': 2}",
        "ok       its state counts the tool calls of the dead process",
        "ok       it remembers the name from the other process",
        "ok       it remembers Oslo from the other process",
        "ok       only the writer ran; the planner's result was restored",
        "ok       the search finds the number where it is",
        "ok       the number is in none of the 3 files any more",
        "ok       the agent's conversation does not contain the number",
        "assistant  No, our conversation holds no card number.",
        "My card number is [REDACTED], for the hotel. (redacted)",
    ):
        assert promised in said
    processes = re.findall(r"This is process (\d+)\.", said)
    assert len(set(processes)) == 3
    for file in old_database.parent.iterdir():
        assert SECRET.encode() not in file.read_bytes()


def test_the_demonstration_serves_the_site_and_its_admin_until_it_is_ended(
    old_database, unused_tcp_port
) -> None:
    demo = start("demo", "--port", unused_tcp_port, "--database", old_database)
    try:
        assert demo.stdout is not None
        said = ""
        while "Ctrl-C" not in said:
            line = demo.stdout.readline()
            assert line, demo.communicate()[1]
            said += line
        site = f"http://127.0.0.1:{unused_tcp_port}"
        assert "6. A small chat site" in said
        assert f"chat       {site}/" in said
        assert f"API        {site}/api/agent-sessions/sessions/" in said
        assert "login      demo, password demo" in said
        for page in ("/login/", "/admin/login/", "/static/chat/chat.css"):
            with urllib.request.urlopen(site + page, timeout=20) as answer:  # noqa: S310 - our own site
                assert answer.status == 200
    finally:
        demo.send_signal(signal.SIGTERM)
        demo.communicate(timeout=60)
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"{site}/login/", timeout=20)  # noqa: S310 - our own site


def test_a_port_that_is_taken_is_said_before_anything_runs(tmp_path, unused_tcp_port) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", unused_tcp_port))
        taken.listen()
        demo = start("demo", "--port", unused_tcp_port, "--database", tmp_path / "db.sqlite3")
        said, complaints = demo.communicate(timeout=60)
    assert demo.returncode == 1
    assert complaints == f"CommandError: Port {unused_tcp_port} is taken; give another.\n"
    assert said == ""


def test_a_demonstration_that_fails_says_where(tmp_path) -> None:
    demo = start("demo", "--no-serve", "--database", tmp_path / "missing" / "db.sqlite3")
    said, complaints = demo.communicate(timeout=60)

    assert demo.returncode == 1
    assert "The demonstration stopped in “1. A fresh database” (exit 1)." in complaints
    assert "2. Conversations" not in said


def test_a_promise_that_is_not_kept_ends_the_demonstration_in_plain_words(tmp_path) -> None:
    database = tmp_path / "db.sqlite3"
    prepared = start("demo_step", "prepare", EXAMPLE_DATABASE=database)
    assert prepared.communicate(timeout=60)[1] == ""

    # Nobody has talked to the agent that is restored here.
    demo = start("demo_step", "prove", EXAMPLE_DATABASE=database)
    said, complaints = demo.communicate(timeout=60)
    assert demo.returncode == 1
    assert "You have not told me your name." in said
    assert complaints == (
        "CommandError: This should hold, and does not: "
        "the conversation continues, and the agent remembers the rest\n"
    )
