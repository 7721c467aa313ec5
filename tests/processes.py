"""Starting other processes on the database of the running test."""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def repository_files() -> list[Path]:
    """The files that are tracked or new; all, in a source distribution, which has no repository."""
    if not (ROOT / ".git").exists():
        made = {".cache", ".venv", "_build", "__pycache__", "node_modules"}
        found = (path for path in ROOT.rglob("*") if path.is_file())
        return [path for path in found if made.isdisjoint(path.relative_to(ROOT).parts)]
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    )
    return [path for name in listed.stdout.split("\0") if (path := ROOT / name).is_file()]


class Process:
    """A process that was forked by ``tests.nursery``; it is used like one of ``subprocess``.

    Args:
        module: What it runs, as ``python -u -m module`` would.
        *arguments: What follows.
    """

    def __init__(self, module: str, *arguments: object) -> None:
        pipes = [os.pipe() for _ in range(4)]
        (input_read, input_write), *outward = pipes
        theirs = [input_read, *(write for _, write in outward)]
        request = json.dumps([module, *map(str, arguments)]).encode()
        socket.send_fds(_nursery(), [request], theirs)
        for file in theirs:
            os.close(file)
        self.stdin = os.fdopen(input_write, "w")
        self.stdout, self.stderr = (os.fdopen(read) for read, _ in outward[:2])
        # Without a buffer, so that it can be asked whether there is more.
        self._told = os.fdopen(outward[2][0], "rb", buffering=0)
        self.pid = int(self._told.readline())
        self.returncode: int | None = None

    def kill(self) -> None:
        """Ends it by SIGKILL."""
        if self.returncode is None:
            # It may have ended.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        """Waits for its end.

        Returns:
            How it ended: a status, or a signal as a negative number.

        Raises:
            TimeoutError: It did not end in time.
        """
        if self.returncode is None:
            if not select.select([self._told], [], [], timeout)[0]:
                raise TimeoutError
            self.returncode = int(self._told.readline())
            self._told.close()
        return self.returncode

    def communicate(self, given: str = "", timeout: float | None = None) -> tuple[str, str]:
        """Gives it the rest of its input, and waits for its end.

        Returns:
            What it wrote to its output and to its standard error.

        Raises:
            TimeoutError: It did not end in time, and was killed.
        """
        with ThreadPoolExecutor(2) as pool:
            read = [pool.submit(stream.read) for stream in (self.stdout, self.stderr)]
            # It may have ended without reading.
            with contextlib.suppress(BrokenPipeError):
                self.stdin.write(given)
                self.stdin.flush()
            with contextlib.suppress(BrokenPipeError):
                self.stdin.close()
            try:
                out, err = (part.result(timeout) for part in read)
                self.wait(timeout)
            except TimeoutError:
                self.kill()
                raise
        self.stdout.close()
        self.stderr.close()
        return out, err


@functools.cache
def _nursery() -> socket.socket:
    """Starts it, once in a run of the tests, and ends it with that."""
    ours, theirs = socket.socketpair()
    nursery = subprocess.Popen(
        [sys.executable, "-u", "-m", "tests.nursery", str(theirs.fileno())],
        cwd=ROOT,
        env={**unmeasured(), "DJANGO_SETTINGS_MODULE": "tests.settings"},
        stdin=subprocess.DEVNULL,
        pass_fds=[theirs.fileno()],
    )
    theirs.close()

    def end() -> None:
        ours.close()
        nursery.wait(30)

    atexit.register(end)
    return ours


def unmeasured() -> dict[str, str]:
    """Gives the environment for a process whose coverage does not count.

    To measure it takes a large part of the time that it runs, and what it shows is that parts that
    are measured elsewhere work together.
    """
    return {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}


def start(module: str, *arguments: object) -> Process:
    """Starts ``python -m module``; it finds the test's database by ``TEST_DATABASE_NAME``."""
    return Process(module, *arguments)


def ready(processes: Sequence[Process]) -> None:
    """Waits until each process has printed ``ready``."""
    for process in processes:
        assert process.stdout.readline() == "ready\n", process.communicate()[1]


def go(processes: Sequence[Process]) -> None:
    """Lets processes that wait for a line go on, all at one moment."""
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()


def outputs(processes: Sequence[Process]) -> list[list[str]]:
    """Waits for processes to end well.

    Returns:
        The lines each of them printed since ``ready``.
    """
    found = []
    for process in processes:
        out, err = process.communicate(timeout=150)
        assert process.returncode == 0, err
        found.append(out.splitlines())
    return found
