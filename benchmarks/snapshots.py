"""A save of a long conversation as one of Strands' snapshots, beside the SDK's own part of it.

A real agent's snapshot is made and serialized by the SDK, and handed to ``DjangoStorage`` with one
message more each time.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .budgets import Verdict

MOST = 1.5
"""The most that a save may take, as a multiple of the SDK's own part."""

MOST_GROWTH = 1.2
"""The most that it may write, as a multiple of what it writes in a shorter conversation."""


@dataclass
class Saves:
    """What it takes to save one message more."""

    own: float
    added: float
    written: float


def one_more(storage: Any, length: int, rounds: int, written: Callable[[], int | None]) -> Saves:
    """Saves one message more at a length, again and again."""
    from strands import Agent
    from strands.session.snapshot_session_manager import _serialize_snapshot

    from tests.adapters.strands.scripted import ScriptedModel

    key = f"session/length-{length}/scopes/agent/default/snapshots/snapshot_latest.json"

    def said(number: int) -> Any:
        role = ("user", "assistant")[number % 2]
        # As long at every length: a byte more can be a message less on each page of a file.
        tracked = f"id-{number:06}"
        return {"role": role, "content": [{"text": "x" * 450}], "tracking_id": tracked}

    agent = Agent(
        model=ScriptedModel(),
        callback_handler=None,
        messages=[said(number) for number in range(length)],
    )
    own: list[float] = []
    added: list[float] = []
    grown: list[int] = []

    async def measure() -> None:
        for number in range(rounds + 1):
            agent.messages.append(said(length + number))
            started = time.perf_counter()
            snapshot = agent.take_snapshot(preset="session", include=["system_prompt"])
            data = _serialize_snapshot(snapshot)
            own.append(time.perf_counter() - started)
            before = written() or 0
            started = time.perf_counter()
            await storage.write(key, data)
            added.append(time.perf_counter() - started)
            grown.append((written() or 0) - before)

    asyncio.run(measure())
    # The first writes the whole conversation.
    return Saves(
        statistics.median(own[1:]), statistics.median(added[1:]), statistics.fmean(grown[1:])
    )


def judge(alias: str, short: int, long: int, rounds: int) -> Iterator[Verdict]:
    """Holds a save on ``DjangoStorage`` to its budgets, at two lengths."""
    from django_agent_sessions.adapters.strands import DjangoStorage
    from django_agent_sessions.models import SessionMessage, Snapshot

    from . import databases

    written = databases.logged if alias == "postgresql" else databases.file_output
    ours = f"DjangoStorage, {databases.version(alias).split()[0]}"
    found, rows = [], []
    for length in (short, long):
        before = [model.objects.using(alias).count() for model in (SessionMessage, Snapshot)]
        saves = one_more(DjangoStorage(using=alias), length, rounds, written)
        after = [model.objects.using(alias).count() for model in (SessionMessage, Snapshot)]
        found.append(saves)
        # Those of the first save are the conversation itself.
        rows.append(sum(after) - sum(before) - length)
    saves = found[-1]
    ratio = 1 + saves.added / saves.own
    yield Verdict(
        f"a snapshot save at {long:,} messages, time",
        f"at most {MOST:g}×",
        ours,
        f"{ratio:.2f}×",
        f"the SDK's own part: {saves.own * 1_000:.0f} ms",
        ratio <= MOST,
    )
    less, more = (saves.written for saves in found)
    if less:
        yield Verdict(
            f"a snapshot save at {long:,} messages, bytes written",
            f"at most {MOST_GROWTH:g}×",
            ours,
            f"{more / less:.2f}×",
            f"at {short:,} messages: {less:,.0f} bytes",
            more / less <= MOST_GROWTH,
        )
    yield Verdict(
        f"a snapshot save at {long:,} messages, rows written",
        "the same",
        ours,
        f"{rows[1]} in {rounds + 1} saves",
        f"at {short:,} messages: {rows[0]}",
        rows[0] == rows[1],
    )
