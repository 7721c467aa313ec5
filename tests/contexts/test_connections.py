"""How many connections a process holds, and what it does when the server ends them.

The agents run in processes of their own, outside of a test run, because in one every connection
is closed at once.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest
from django.conf import settings
from django.db import connection

from django_agent_sessions.models import Session
from tests.processes import ROOT

from .chats import NAMES, said

pytestmark = pytest.mark.django_db(transaction=True)

THREADS = 8
CALLS = 200
OWN_CONNECTIONS = 8
"""The default of MAX_CONNECTIONS: what a process may open beside those of its threads."""

SERVERS = [name for name in ("postgresql", "mariadb") if name == settings.TEST_DATABASE]
"""SQLite has no server and is not measured: these tests are not collected there."""


def others() -> dict[int, bool]:
    """The server's connections to this database but this one, and whether each is idle."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(
                "SELECT pid, state = 'idle' FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        else:
            cursor.execute(
                "SELECT id, command = 'Sleep' FROM information_schema.processlist "
                "WHERE db = database() AND id <> connection_id()"
            )
        return {number: bool(idle) for number, idle in cursor.fetchall()}


def end_idle_ones() -> int:
    """Ends the idle connections of others, as an administrator would.

    Returns:
        How many there were.
    """
    idle = [number for number, is_idle in others().items() if is_idle]
    with connection.cursor() as cursor:
        for number in idle:
            if connection.vendor == "postgresql":
                # A pooler may have given this very one to the administrator by now.
                cursor.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE pid = %s AND pid <> pg_backend_pid()",
                    [number],
                )
            else:
                # It may be gone by now, which KILL calls an error.
                cursor.execute(f"KILL SOFT CONNECTION {number:d}")
    return len(idle)


@contextmanager
def load(sdk: str, calls: int, threads: int, **environment: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.contexts.load", sdk, str(calls), str(threads)],
        cwd=ROOT,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.contexts.settings", **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "ready\n"
            yield process
            tell(process)
            assert process.wait(60) == 0
        finally:
            process.kill()


def tell(process: subprocess.Popen[str]) -> None:
    stdin: IO[str] | None = process.stdin
    assert stdin
    stdin.write("go\n")
    stdin.flush()


def progress(process: subprocess.Popen[str]) -> Iterator[int]:
    """Yields how many calls are done, until all are."""
    assert process.stdout
    done = 0
    while (line := process.stdout.readline()) != "done\n":
        assert line, "the process has failed"
        done += 1
        yield done


def everything_is_there_once() -> None:
    names = Session.objects.values_list("session_id", flat=True)
    texts = [text for name in names for text in said(name)]
    expected = [f"text {n}" for n in range(CALLS)] + [f"You said: text {n}" for n in range(CALLS)]
    assert sorted(texts) == sorted(expected)


@pytest.mark.skipif("PGDIRECTPORT" in os.environ, reason="a pooler keeps what we close")
@pytest.mark.parametrize("sdk", NAMES)
@pytest.mark.parametrize("age", [0, 60])
def test_few_connections_while_many_threads_call_and_none_afterwards(sdk, age):
    # Threads of earlier tests in this process may hold some of their own.
    before = set(others())
    with load(sdk, CALLS, THREADS, CONN_MAX_AGE=str(age)) as process:
        tell(process)
        most = max(len(set(others()) - before) for _ in progress(process))
        time.sleep(1)
        left = len(set(others()) - before)

    assert 0 < most <= THREADS + OWN_CONNECTIONS
    if age == 0:
        assert left == 0
    else:
        assert left <= OWN_CONNECTIONS
    everything_is_there_once()


@pytest.mark.parametrize("sdk", NAMES)
def test_connections_that_the_server_ends_half_way_cost_nothing(sdk):
    ended = 0
    with load(sdk, CALLS, THREADS, CONN_MAX_AGE="60") as process:
        tell(process)
        for done in progress(process):
            if done >= CALLS // 2 and not ended:
                ended = end_idle_ones()

    assert ended
    everything_is_there_once()


# --- a server of one's own -------------------------------------------------------------------


def own_server_programs() -> Path | None:
    """The folder with initdb and pg_ctl, where they are installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return found[-1].parent if found else None


PROGRAMS = own_server_programs() if "postgresql" in SERVERS else None
if "postgresql" in SERVERS and PROGRAMS is None:
    print("PostgreSQL's initdb is not in /usr/lib/postgresql: no restart of a server is tested")


class OwnServer:
    """A PostgreSQL cluster that nobody else uses, so that it may be restarted."""

    def __init__(self, programs: Path, folder: Path, port: int) -> None:
        self.programs = programs
        self.folder = folder
        self.port = port

    def run(self, program: str, *arguments: str) -> None:
        command = [str(self.programs / program), "-D", str(self.folder / "data"), *arguments]
        if os.getuid() == 0:
            # PostgreSQL refuses to run as root.
            command = ["runuser", "-u", "postgres", "--", *command]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd="/", timeout=60)

    def start(self) -> None:
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -k {self.folder} -c fsync=off"
        self.run("pg_ctl", "-w", "-o", options, "-l", str(self.folder / "log"), "start")

    def stop(self) -> None:
        self.run("pg_ctl", "-w", "-m", "fast", "stop")


@pytest.fixture
def own_server() -> Iterator[OwnServer]:
    assert PROGRAMS
    folder = Path(tempfile.mkdtemp(prefix="agent-sessions-"))
    if os.getuid() == 0:
        shutil.chown(folder, "postgres", "postgres")
    server = OwnServer(PROGRAMS, folder, 20_000 + os.getpid() % 10_000)
    try:
        server.run("initdb", "-A", "trust", "-U", "postgres", "-N")
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize("sdk", NAMES)
def test_a_restart_of_the_server_between_two_calls_costs_nothing(own_server, sdk):
    environment = {
        "PGHOST": "127.0.0.1",
        "PGPORT": str(own_server.port),
        "PGUSER": "postgres",
        "TEST_DATABASE_NAME": "postgres",
        "CONN_MAX_AGE": "60",
    }
    migrate = [sys.executable, "-m", "django", "migrate", "-v0"]
    subprocess.run(
        migrate,
        cwd=ROOT,
        env={**os.environ, **environment, "DJANGO_SETTINGS_MODULE": "tests.contexts.settings"},
        check=True,
    )
    with load(sdk, 10, 1, **environment, PAUSE_AT="4") as process:
        tell(process)
        assert process.stdout
        for number in range(5):
            assert process.stdout.readline() == f"{number}\n"
        own_server.stop()
        own_server.start()
        tell(process)
        assert list(progress(process)) == [1, 2, 3, 4, 5]


# What cannot run here is not collected.
if not SERVERS:
    del test_few_connections_while_many_threads_call_and_none_afterwards
    del test_connections_that_the_server_ends_half_way_cost_nothing
if PROGRAMS is None:
    del test_a_restart_of_the_server_between_two_calls_costs_nothing
