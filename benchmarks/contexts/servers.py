"""The servers, each as a command on a port of this machine."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.servers import ServerError, processes

ROOT = Path(__file__).resolve().parents[2]
ASGI, WSGI = "benchmarks.contexts.asgi:application", "benchmarks.contexts.wsgi:application"
_PATIENCE = 60


@dataclass(frozen=True)
class Context:
    """How agents run: a command with ``{port}`` in it, and what the run does meanwhile."""

    command: str
    patch: str = ""
    websocket: bool = False
    reloads: bool = False
    refuses: bool = False
    """Whether every agent is refused by an error."""


def _uvicorn(loop: str) -> Context:
    return Context(f"uvicorn {ASGI} --port {{port}} --log-level warning --loop {loop}")


def _gunicorn(options: str, application: str = WSGI, **more: object) -> Context:
    return Context(
        f"gunicorn {application} --bind 127.0.0.1:{{port}} --timeout 60 --log-level warning "
        f"{options}",
        **more,  # type: ignore[arg-type]  # they are fields
    )


_GTHREAD = "--worker-class gthread --workers 2 --threads 3"
SERVERS = {
    "uvicorn, asyncio": _uvicorn("asyncio"),
    "uvicorn, uvloop by factory": _uvicorn("uvloop"),
    "uvicorn, uvloop by policy": Context("benchmarks.contexts.policy {port}"),
    "gunicorn sync": _gunicorn("--workers 2"),
    "gunicorn gthread": _gunicorn(_GTHREAD),
    "gunicorn gthread, nest_asyncio": _gunicorn(_GTHREAD, patch="nest_asyncio"),
    "gunicorn gthread, preload": _gunicorn(f"{_GTHREAD} --preload", patch="preload"),
    "gunicorn gthread, SIGHUP": _gunicorn(_GTHREAD, reloads=True),
    "gunicorn uvicorn workers": _gunicorn(
        "--workers 2 --worker-class uvicorn_worker.UvicornWorker", ASGI
    ),
    "gunicorn gevent": _gunicorn("--worker-class gevent", patch="gevent", refuses=True),
    "hypercorn, asyncio": Context(f"hypercorn {ASGI} --bind 127.0.0.1:{{port}}"),
    "hypercorn, uvloop": Context(
        f"hypercorn {ASGI} --bind 127.0.0.1:{{port}} --worker-class uvloop"
    ),
    "daphne": Context(f"daphne {ASGI} -b 127.0.0.1 -p {{port}} -v 0"),
    "daphne, Channels": Context(f"daphne {ASGI} -b 127.0.0.1 -p {{port}} -v 0", websocket=True),
}


class Worker:
    """A process of ours with all that it starts, ended with the block."""

    def __init__(self, module: str, environment: Mapping[str, str], log: Path) -> None:
        self.log = log
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *module.split()],
                cwd=ROOT,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(10)
        if self.process.poll() is None:
            processes.kill(self.process)

    def children(self) -> Sequence[int]:
        """Return the ids of the processes that it has started."""
        return [process.pid for process in processes.tree(self.process.pid)[1:]]

    def last_lines(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-20:])


@contextlib.contextmanager
def served(
    context: Context, port: int, environment: Mapping[str, str], log: Path
) -> Iterator[Worker]:
    """Run a server for the block, which begins when it answers."""
    module = context.command.format(port=port)
    with Worker(module, {**environment, "CONTEXTS_PATCH": context.patch}, log) as server:
        until = time.monotonic() + _PATIENCE
        while True:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5).close()
                break
            if server.process.poll() is not None or time.monotonic() > until:
                raise ServerError(f"{module} did not answer:\n{server.last_lines()}")
            time.sleep(0.1)
        yield server
