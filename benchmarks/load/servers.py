"""The example's server, as people run it: uvicorn, or gunicorn with threads."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

ASGI, WSGI = "asgi", "wsgi"
_ROOT = Path(__file__).resolve().parents[2]
_PATIENCE = 60


class Server:
    """A server with its worker processes, on a free port of this machine."""

    def __init__(
        self, kind: str, *, workers: int, threads: int, environment: Mapping[str, str], log: Path
    ) -> None:
        self.port = _free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        command = _uvicorn(self.port, workers)
        if kind == WSGI:
            command = _gunicorn(self.port, workers, threads)
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, *command],
                cwd=_ROOT,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait(self) -> None:
        """Waits until it answers."""
        until = time.monotonic() + _PATIENCE
        while time.monotonic() < until and self._process.poll() is None:
            try:
                with urllib.request.urlopen(f"{self.address}/login/", timeout=5):  # noqa: S310 - our own server
                    return
            except (OSError, urllib.error.URLError):
                time.sleep(0.2)
        raise SystemExit(f"The server did not answer:\n{self.log()}")

    def processes(self) -> list[int]:
        """Finds its processes, the first one included."""
        parents: dict[int, list[int]] = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    fields = (entry / "stat").read_text().rpartition(")")[2].split()
                except OSError:
                    continue
                parents.setdefault(int(fields[1]), []).append(int(entry.name))
        found = [self._process.pid]
        for pid in found:
            found += parents.get(pid, [])
        return found

    def log(self) -> str:
        """Reads what it has said."""
        return self._log.read_text(errors="replace")

    def stop(self) -> None:
        """Ends it in good order; by force if it does not."""
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


def _uvicorn(port: int, workers: int) -> list[str]:
    return [
        *("-m", "uvicorn", "benchmarks.load.asgi:application", "--host", "127.0.0.1"),
        *("--port", str(port), "--workers", str(workers), "--timeout-keep-alive", "75"),
        *("--log-level", "warning", "--no-access-log"),
    ]


def _gunicorn(port: int, workers: int, threads: int) -> list[str]:
    return [
        *("-m", "gunicorn", "benchmarks.load.wsgi:application", "--bind", f"127.0.0.1:{port}"),
        *("--worker-class", "gthread", "--workers", str(workers), "--threads", str(threads)),
        *("--keep-alive", "75", "--timeout", "120", "--log-level", "warning"),
    ]


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port
