"""A process that compacts a conversation and is killed at one of its statements.

``python -m tests.adapters.openai_agents.compacting N KEEP``: before statement N of the compaction
it kills itself. If there are fewer statements, it ends.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

import django

django.setup()

from django.db.backends.signals import connection_created

from django_agent_sessions.adapters.openai_agents import DjangoSession

from .compact_api import Server


class Killing:
    """Counts statements, and kills the process before one of them."""

    def __init__(self, number: int) -> None:
        self.left = number
        self.armed = False

    def arm(self) -> None:
        self.armed = True

    def __call__(self, execute: Any, sql: Any, params: Any, many: Any, context: Any) -> Any:
        if self.armed:
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return execute(sql, params, many, context)


async def main(number: int, keep: bool) -> None:
    killing = Killing(number)

    def install(connection: Any, **_: Any) -> None:
        connection.execute_wrappers.append(killing)

    connection_created.connect(install)
    server = Server()
    server.meanwhile = killing.arm
    session = DjangoSession("s", compaction=server.compaction(keep_history=keep))
    await session.run_compaction({"force": True})


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2] == "keep"))
