"""A writer that read a session before it was redacted.

``python -m tests.governance.redaction.worker SESSION`` reads operations from its input: ``append``,
``append-many``, ``update``, ``agent``, ``orchestrator``. For each it reads the session, prints
``ready``, waits for a line, and writes the secret again and again, under the epoch that it read,
until it is told to read anew. Then it closes its connection and prints how often it wrote.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import django

django.setup()

from django.db import connections

from django_agent_sessions.exceptions import StaleSessionError
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.records import AgentState

from .planting import SECRET

MOST = 20_000
MESSAGE = {"role": "user", "content": SECRET}


def writer(work: str, session_id: str) -> Callable[[], Any]:
    store = SessionStore()
    session = store.get(session_id)
    agent = store.agents.find(session, "default")
    assert agent is not None
    epoch = session.redaction_epoch
    state = AgentState(state={"note": SECRET})
    works: dict[str, Callable[[], Any]] = {
        "append": partial(store.append, agent, MESSAGE, epoch=epoch),
        "append-many": partial(store.append_many, agent, [MESSAGE] * 3, epoch=epoch),
        "update": partial(store.messages.update, agent, 0, MESSAGE, epoch=epoch),
        "agent": partial(store.agents.update, agent, state, epoch=epoch),
        "orchestrator": partial(
            store.multi_agents.update, session, "graph", {"note": SECRET}, epoch=epoch
        ),
    }
    return works[work]


def write_until_stale(write: Callable[[], Any]) -> int:
    # Whoever started it redacts after the first write: so many more are a failure.
    for written in range(MOST):
        started = time.monotonic()
        try:
            write()
        except StaleSessionError:
            return written
        if written == 0:
            print("writing", flush=True)
        # Without a pause, the rows to redact become more while they are searched. As long as the
        # machine needs: on a slow one SQLite's lock, which is not fair, would never be free.
        time.sleep(max(0.002, 2 * (time.monotonic() - started)))
    raise RuntimeError("nobody said that something was redacted")


def main(session_id: str) -> None:
    while work := sys.stdin.readline().strip():
        write = writer(work, session_id)
        print("ready", flush=True)
        sys.stdin.readline()
        written = write_until_stale(write)
        connections.close_all()
        print(written, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
