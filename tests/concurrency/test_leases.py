"""Exclusive runs of one session in several processes: in turns, and past those that die."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import time
from contextlib import contextmanager

import pytest
from django.db import connection, connections

from django_agent_sessions import leases
from django_agent_sessions.models import SessionMessage
from tests.processes import go, outputs, ready, start
from tests.texts import text_of

from .turns import MAKERS

pytestmark = [
    pytest.mark.process,
    pytest.mark.django_db(transaction=True),
    pytest.mark.parametrize("sdk", ["strands", "openai"]),
]

WORKER = "tests.concurrency.turns"
LIMIT = 60
"""Seconds that the runs of the worker wait at the most."""


def said() -> list[str]:
    """What was said, in order."""
    rows = SessionMessage.objects.order_by("message_id")
    found = [(row.message_id, text_of(row)) for row in rows]
    assert [position for position, _ in found] == list(range(len(found)))
    return [text for _, text in found]


def answered(prompt: str) -> list[str]:
    return [prompt, f"You said: {prompt}"]


async def nothing() -> None:
    pass


@contextmanager
def holder(sdk: str, seconds: float):
    """A process in the middle of an exclusive run."""
    process = start(WORKER, sdk, "shared", "held", seconds)
    try:
        ready([process])
        yield process
    finally:
        process.kill()
        process.wait(20)
        for stream in (process.stdin, process.stdout, process.stderr):
            stream.close()


def test_eight_processes_take_turns_and_never_two_at_once(sdk, store, tmp_path):
    store.open("shared")
    connections.close_all()
    file = tmp_path / "turns"
    file.touch()

    # All of them where that takes least of the suite's time.
    each = 20 if connection.vendor == "postgresql" else 5
    processes = [start(WORKER, sdk, "shared", "many", each, number, file) for number in range(8)]
    ready(processes)
    go(processes)
    outputs(processes)

    lines = map(json.loads, file.read_text().splitlines())
    turns = sorted(lines, key=lambda turn: turn[1])
    assert len(turns) == 8 * each
    for (_, _, ended, _), (_, began, _, _) in itertools.pairwise(turns):
        assert ended < began
    # Each run went on where the one before it had ended.
    assert [heard for *_, heard in turns] == list(range(1, 16 * each, 2))
    assert max(began - asked for asked, began, _, _ in turns) < LIMIT
    found = said()
    prompts = found[::2]
    assert found == [text for prompt in prompts for text in answered(prompt)]
    for number in range(8):
        own = [prompt for prompt in prompts if prompt.startswith(f"{number}-")]
        assert own == [f"{number}-{index}" for index in range(each)]


def test_after_a_kill_the_next_run_begins_within_the_expiry(sdk, store):
    with holder(sdk, 1) as process:
        # It is renewed, so that it has not expired by itself.
        time.sleep(1.2)
        process.kill()
        killed = time.monotonic()
        # The expiry, and the moment until it is asked for.
        with leases.acquire(store.get("shared").id, wait=1.2):
            assert time.monotonic() - killed < 1.5
            asyncio.run(MAKERS[sdk]("shared", nothing)("next"))

    assert said()[-2:] == answered("next")


def test_a_process_that_stood_still_too_long_writes_nothing_any_more(sdk, store):
    with holder(sdk, 0.6) as process:
        os.kill(process.pid, signal.SIGSTOP)
        asyncio.run(MAKERS[sdk]("shared", nothing)("next"))
        before = said()
        os.kill(process.pid, signal.SIGCONT)
        (told,) = outputs_of_one(process)

    assert told == "SessionBusyError"
    assert said() == before
    assert before[-2:] == answered("next")
    with leases.acquire(store.get("shared").id, wait=0):
        pass


def outputs_of_one(process):
    go([process])
    (lines,) = outputs([process])
    return lines
