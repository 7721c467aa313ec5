"""Other processes of the tests of all adapters, which see a test's database and nothing else."""

from __future__ import annotations

import json
from typing import Any

from django.db import connections

from tests.processes import Process, go, outputs, ready, start


def start_worker(*arguments: object) -> Process:
    """Starts a writer of the contract kit."""
    return start("django_agent_sessions.testing.worker", *arguments)


def hold(module: str, *arguments: object) -> Process:
    """Starts a process, and waits until it has something in memory: until it says ``ready``."""
    # This process keeps no lock and no connection.
    connections.close_all()
    process = start(module, *arguments)
    ready([process])
    return process


def let_go(process: Process) -> list[str]:
    """Lets a process that was held go on to its end, and returns the lines that it printed."""
    connections.close_all()
    go([process])
    return outputs([process])[0]


def work_together(module: str, *arguments: object, processes: int) -> list[list[str]]:
    """Lets several processes, which get their number last, do the same at the same time.

    Returns:
        The lines that each of them printed.
    """
    connections.close_all()
    started = [start(module, *arguments, number) for number in range(processes)]
    ready(started)
    go(started)
    return outputs(started)


def result_of(module: str, *arguments: object, given: str = "") -> Any:
    """Runs a process to its end, and returns the JSON of the last line that it printed."""
    connections.close_all()
    process = start(module, *arguments)
    out, err = process.communicate(given, timeout=100)
    assert process.returncode == 0, err
    return json.loads(out.splitlines()[-1])
