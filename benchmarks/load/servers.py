"""The example's server, as people run it: uvicorn, or gunicorn with threads."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from benchmarks.servers import free_port

ASGI, WSGI = "asgi", "wsgi"
ROOT = Path(__file__).resolve().parents[2]
_PATIENCE = 600


class Server:
    """A server with its worker processes, on a free port of this machine."""

    def __init__(
        self, kind: str, *, workers: int, threads: int, environment: Mapping[str, str], log: Path
    ) -> None:
        port = free_port()
        self.address = f"http://127.0.0.1:{port}"
        command = _gunicorn(port, workers, threads) if kind == WSGI else _uvicorn(port, workers)
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, *command],
                cwd=ROOT,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.pid = self._process.pid

    def wait(self) -> None:
        """Wait until it answers."""
        until = time.monotonic() + _PATIENCE
        while time.monotonic() < until and self._process.poll() is None:
            try:
                with urllib.request.urlopen(f"{self.address}/login/", timeout=5):  # noqa: S310 - our own server
                    return
            except OSError:
                time.sleep(0.2)
        raise SystemExit(f"The server did not answer:\n{self.log()}")

    def log(self) -> str:
        """Read what it has said."""
        return self._log.read_text(errors="replace")

    def stop(self) -> None:
        """End it in good order; by force if it does not."""
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
