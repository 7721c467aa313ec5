"""The contract for several processes on one conversation, and for killed ones."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import IO, Any, Protocol

import pytest
from django.db import connections

from .base import Contract, D, numbered_texts

_START = (
    "import django; django.setup(); from django_agent_sessions.testing import worker; worker.main()"
)


class Process(Protocol):
    """A process with open pipes, such as a ``subprocess.Popen``."""

    pid: int
    stdin: IO[str] | None
    stdout: IO[str] | None

    def communicate(self, given: str = "", timeout: float | None = None) -> tuple[str, str]:
        """Wait for the end of the process, and return its output and errors."""


class ProcessContract(Contract[D]):
    """All messages of concurrent processes are kept, and the acknowledged ones of a killed process.

    The tests have the marker ``process``.
    """

    def start(self, *arguments: object) -> Any:
        """Start a process that calls ``testing.worker.main``, with the test's database."""
        name = str(connections["default"].settings_dict["NAME"])
        return subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-u", "-c", _START, *map(str, arguments)],
            env={**os.environ, "CONTRACT_DATABASE": name},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def start_writer(self, session_id: str, count: int, prefix: str) -> Any:
        """Start a process that appends texts, and prints each that was acknowledged."""
        # This process keeps no lock and no connection.
        connections.close_all()
        contract = f"{type(self).__module__}:{type(self).__qualname__}"
        process = self.start(contract, session_id, count, prefix)
        line = process.stdout.readline()
        assert line == "ready\n", process.communicate()[1]
        return process

    def go(self, *processes: Any) -> None:
        """Start the writers at the same moment."""
        for process in processes:
            process.stdin.write("go\n")
            process.stdin.flush()

    @pytest.mark.process
    @pytest.mark.django_db(transaction=True)
    def test_processes_append_to_a_session_that_none_of_them_finds(self) -> None:
        writers = [self.start_writer("shared", 40, name) for name in "ab"]

        self.go(*writers)
        for writer in writers:
            out, err = writer.communicate(timeout=150)
            assert len(out.splitlines()) == 40, err

        said = self.read_texts("shared")
        assert self.positions("shared") == list(range(80))
        assert self.message_count("shared") == 80, str(self.message_count("shared"))
        for name in "ab":
            assert [text for text in said if text[0] == name] == numbered_texts(name, 40)

    @pytest.mark.process
    @pytest.mark.django_db(transaction=True)
    def test_what_was_acknowledged_outlives_a_kill_and_the_conversation_goes_on(self) -> None:
        acknowledged: list[str] = []
        for run in "abc":
            writer = self.start_writer("killed", 10_000, run)
            self.go(writer)
            acknowledged += [writer.stdout.readline().strip() for _ in range(5)]
            os.kill(writer.pid, signal.SIGKILL)
            out, _ = writer.communicate(timeout=150)
            # The last line may be cut off.
            acknowledged += out.split("\n")[:-1]
            connections.close_all()

        self.say("killed", "afterwards")

        said = self.read_texts("killed")
        assert set(acknowledged) <= set(said)
        assert len(said) == len(set(said))
        assert said[-1] == "afterwards"
        assert self.positions("killed") == list(range(len(said)))
