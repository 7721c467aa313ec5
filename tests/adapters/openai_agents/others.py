"""The other processes of a test, which see its database and nothing else of it."""

from __future__ import annotations

import json
from typing import Any

from django.db import connections

from tests.processes import go, outputs, ready, start

WORKER = "tests.adapters.openai_agents.worker"


def in_another_process(*arguments: str, given: str = "") -> dict[str, Any]:
    """Runs the worker to its end.

    Args:
        *arguments: What the worker is to do.
        given: Its standard input.

    Returns:
        What its model ``heard`` and what it ``answered``.
    """
    connections.close_all()
    process = start(WORKER, *arguments)
    out, err = process.communicate(given, timeout=100)
    assert process.returncode == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


def work_together(work: str, count: int, processes: int, worker: str = WORKER) -> list[list[str]]:
    """Lets several processes do the same at the same time, in the conversation ``s``.

    Returns:
        The lines that each of them printed.
    """
    # This process keeps no lock and no connection.
    connections.close_all()
    started = [start(worker, work, "s", count, number) for number in range(processes)]
    ready(started)
    go(started)
    return outputs(started)
