"""The chats on uvicorn, in a process of their own, on the running test's database."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]


class Server:
    """A process that serves the chats.

    Args:
        home: Where its gates and its cache are; two servers of one home share them.
    """

    def __init__(self, home: Path) -> None:
        self.gates = home / "gates"
        self.gates.mkdir(exist_ok=True)
        self._log = (home / f"log-{id(self)}").open("w+")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.rest.chat.ai_sdk.server"],
            cwd=ROOT,
            env={
                **os.environ,
                "DJANGO_SETTINGS_MODULE": "tests.rest.chat.ai_sdk.settings",
                "GATES": str(self.gates),
                "CACHE_FILES": str(home / "cache"),
            },
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        assert self.process.stdout is not None
        port = self.process.stdout.readline().strip()
        assert port, self.log
        self.url = f"http://127.0.0.1:{port}"

    def stop(self) -> str:
        """Ends it as a supervisor would.

        Returns:
            What it logged.
        """
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(30) in (0, -signal.SIGTERM), self.log
        assert self.process.stdout is not None
        self.process.stdout.close()
        found = self.log
        self._log.close()
        return found

    @property
    def log(self) -> str:
        """What it logged so far."""
        self._log.flush()
        return Path(self._log.name).read_text()


def main() -> None:
    import uvicorn

    from tests.rest.chat.ai_sdk.asgi import application

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
    main()
