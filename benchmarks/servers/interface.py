"""What all private servers have in common."""

from __future__ import annotations

import abc
import atexit
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from . import processes
from .places import free_port

_PATIENCE = 90.0


class ServerError(Exception):
    """A server did not come up or did not end; the message has the last lines of its log."""


class Server(abc.ABC):
    """A database server of ours, with a directory and a port that nobody else uses.

    As a context manager it is there from the start of the block to its end, with nothing left.
    """

    host: ClassVar[str] = "127.0.0.1"
    user: ClassVar[str]
    """Whose processes they are, where we are root."""
    end: ClassVar[signal.Signals]
    """The signal that ends it in good order."""

    def __init__(
        self,
        directory: Path | str,
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = Path(directory).resolve()
        self.port = port or free_port()
        self.settings = dict(settings or {})
        self.data = self.directory / "data"
        self.log = self.directory / "log"
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = os.getpid()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.destroy()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.destroy()

    @property
    def pid(self) -> int | None:
        """The process; None if it does not run."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def start(self) -> None:
        """Makes the data directory if there is none, starts the server, waits until it answers."""
        self.launch()
        self.await_answer()

    def launch(self) -> None:
        """Starts the server and does not wait for it."""
        if self.pid is not None:
            raise ServerError(f"{self.directory.name} runs already")
        processes.own(self.directory, self.user)
        self.prepare()
        with self.log.open("ab") as log:
            self._process = processes.start(
                self.command(), user=self.user, directory=self.directory, log=log
            )
        atexit.register(self._end_with_us)

    def await_answer(self, patience: float = _PATIENCE) -> None:
        """Waits until the server answers."""
        deadline = time.monotonic() + patience
        while not self.answers():
            if self.pid is None:
                raise self._error("ended while it was awaited")
            if time.monotonic() > deadline:
                raise self._error(f"did not answer within {patience:.0f} seconds")
            time.sleep(0.05)

    def stop(self, patience: float = _PATIENCE) -> None:
        """Ends the server in good order."""
        if self._process is None:
            return
        self._process.send_signal(self.end)
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            raise self._error(f"did not end within {patience:.0f} seconds") from None
        self._ended()

    def kill(self) -> None:
        """Ends the server and all its processes by SIGKILL: what is not on the disk is gone."""
        if self._process is not None:
            processes.kill(self._process)
            self._ended()

    def suspend(self) -> None:
        """Stops all processes of the server, so that it neither answers nor hangs up."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Lets suspended processes go on."""
        self._signal(signal.SIGCONT)

    def destroy(self) -> None:
        """Kills the server and removes its directory."""
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def last_lines(self, number: int = 20) -> str:
        """Reads the end of the server's log."""
        try:
            text = self.log.read_text(errors="replace")
        except OSError:
            return "(no log)"
        return "\n".join(text.splitlines()[-number:])

    @abc.abstractmethod
    def prepare(self) -> None:
        """Makes the data directory if there is none, and writes the settings."""

    @abc.abstractmethod
    def command(self) -> list[str | Path]:
        """The program and its arguments."""

    @abc.abstractmethod
    def answers(self) -> bool:
        """Tells whether the server takes statements now."""

    @abc.abstractmethod
    def create(self, name: str) -> None:
        """Makes an empty database."""

    @abc.abstractmethod
    def django(self, name: str) -> dict[str, Any]:
        """Describes a database as an entry of Django's ``DATABASES``."""

    def _signal(self, number: int) -> None:
        if self.pid is not None:
            processes.send(processes.tree(self.pid), number)

    def _ended(self) -> None:
        self._process = None
        atexit.unregister(self._end_with_us)

    def _end_with_us(self) -> None:
        # A fork of ours has not started it.
        if os.getpid() == self._owner:
            self.kill()

    def _error(self, what: str) -> ServerError:
        return ServerError(
            f"{type(self).__name__} in {self.directory} {what}. Its log ends:\n{self.last_lines()}"
        )
