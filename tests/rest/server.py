"""A site on uvicorn, in a process of its own, on the running test's database.

``python -m tests.rest.server SETTINGS`` prints the port.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Self

from tests.processes import ROOT


class Server:
    """A process that serves a site.

    Args:
        settings: The module of its settings.
        log: A file for its standard error.
        **environment: What it finds in its environment.
    """

    def __init__(self, settings: str, log: Path, **environment: str) -> None:
        self._log = log
        with log.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.rest.server", settings],
                cwd=ROOT,
                env={**os.environ, **environment},
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        assert self.process.stdout is not None
        port = self.process.stdout.readline().strip()
        assert port, self.log
        self.url = f"http://127.0.0.1:{port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> str:
        """Ends it as a supervisor would.

        Returns:
            What it logged.
        """
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(30) in (0, -signal.SIGTERM), self.log
        assert self.process.stdout is not None
        self.process.stdout.close()
        return self.log

    @property
    def log(self) -> str:
        """What it logged so far."""
        return self._log.read_text()


def main(settings: str) -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = settings

    import uvicorn
    from django.core.asgi import get_asgi_application

    from django_agent_sessions.rest.lifespan import end_answers_at_shutdown

    application = end_answers_at_shutdown(get_asgi_application())
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", 0))
        # Who knows the port may connect at once.
        listening.listen(100)
        print(listening.getsockname()[1], flush=True)
        config = uvicorn.Config(
            application, log_level="error", lifespan="on", timeout_graceful_shutdown=1
        )
        uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main(sys.argv[1])
