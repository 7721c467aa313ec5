"""The chats of these tests on a server."""

from __future__ import annotations

from pathlib import Path

from tests.rest import server


class Server(server.Server):
    """A process that serves the chats.

    Args:
        home: Where its gates and its cache are; two servers of one home share them.
    """

    def __init__(self, home: Path) -> None:
        self.gates = home / "gates"
        self.gates.mkdir(exist_ok=True)
        super().__init__(
            "tests.rest.chat.ai_sdk.settings",
            home / f"log-{id(self)}",
            GATES=str(self.gates),
            CACHE_FILES=str(home / "cache"),
        )
