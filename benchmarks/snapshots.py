"""``python -m benchmarks.snapshots``: a conversation saved as Strands' snapshots, on four storages.

A real agent with a ``SnapshotSessionManager`` and ``save_latest_on="message"`` talks for 500
turns, on ``DjangoStorage`` with SQLite, on Strands' ``LocalFileStorage`` and ``S3Storage`` (one
moto server in a process of its own), and on a storage that does nothing: what is left then is the
SDK's own part. Counted are the bytes handed to the file, to S3, or to the database (statements
with their parameters). Then one message more is saved at 10,000 messages.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from . import object_storage
from .budgets import Verdict
from .tables import table

MOST = 1.5
"""The most that a save may take, as a multiple of the SDK's own part."""

MOST_GROWTH = 1.2
"""The most that it may write, as a multiple of what it writes in a shorter conversation."""

OURS, NOTHING = "DjangoStorage, SQLite", "nothing"


class Nothing:
    """A storage that does nothing: what a save takes then is the SDK's own part."""

    async def write(self, key: str, data: bytes) -> None:
        """Forgets it."""

    async def read(self, key: str) -> bytes | None:
        """Finds nothing."""
        return None

    async def delete(self, key: str) -> None:
        """Has nothing to delete."""

    async def list(self, query: str = "") -> Any:
        """Has nothing to list."""
        return []

    async def search(self, query: str) -> Any:
        """Has nothing to search."""
        return []


class Counted:
    """A storage that counts what its ``write`` is given, and how long that takes."""

    def __init__(self, storage: Any) -> None:
        self._storage = storage
        self.bytes: list[int] = []
        self.seconds: list[float] = []

    async def write(self, key: str, data: bytes) -> None:
        """Counts."""
        started = time.perf_counter()
        await self._storage.write(key, data)
        self.seconds.append(time.perf_counter() - started)
        self.bytes.append(len(data))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)


class Statements:
    """Counts the bytes of statements that write, with their parameters."""

    def __init__(self) -> None:
        self.bytes = 0
        self.count = 0

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        self.count += 1
        if not sql.lstrip().upper().startswith("SELECT"):
            self.bytes += len(sql.encode()) + sum(len(str(p).encode()) for p in params or ())
        return execute(sql, params, many, context)


def converse(storage: Any, turns: int) -> float:
    """Lets an agent talk."""
    from strands import Agent
    from strands.agent.conversation_manager import NullConversationManager
    from strands.session import SnapshotSessionManager

    from tests.adapters.strands.scripted import ScriptedModel

    agent = Agent(
        model=ScriptedModel(choose=lambda messages: "x" * 450),
        callback_handler=None,
        conversation_manager=NullConversationManager(),
        session_manager=SnapshotSessionManager("s", storage=storage, save_latest_on="message"),
    )
    assert isinstance(agent.model, ScriptedModel)
    started = time.perf_counter()
    for number in range(turns):
        agent(f"{number} " + "y" * 450)
        agent.model.requests.clear()
    return time.perf_counter() - started


@contextlib.contextmanager
def s3_storage() -> Iterator[Any]:
    """An ``S3Storage`` in a bucket of a server of its own."""
    from strands.storage import S3Storage

    with object_storage.served():
        yield S3Storage(object_storage.BUCKET, boto_session=object_storage.session())


def talked(storages: dict[str, Any], turns: int) -> list[list[str]]:
    """Lets an agent talk on each storage; one row of figures for each."""
    from django.db.backends.signals import connection_created

    from django_agent_sessions.models import SessionMessage, Snapshot

    rows = []
    for name, storage in storages.items():
        counted, statements = Counted(storage), Statements()

        def watch(connection: Any, statements: Statements = statements, **more: Any) -> None:
            connection.execute_wrappers.append(statements)

        # The app has connections of its own.
        connection_created.connect(watch)
        seconds = converse(counted, turns)
        connection_created.disconnect(watch)
        written = statements.bytes if name == OURS else sum(counted.bytes)
        saves = len(counted.seconds)
        stored = str(saves)
        if name == OURS:
            assert SessionMessage.objects.using("sqlite").count() == 2 * turns
            stored = str(2 * turns + Snapshot.objects.using("sqlite").count())
        last = counted.seconds[-max(saves // 10, 1) :]
        rows.append(
            [
                name,
                "–" if name == NOTHING else f"{written / 1e6:.1f}",
                "–" if name == NOTHING else f"{written / saves:,.0f}",
                stored if name == OURS else "–",
                f"{seconds:.1f}",
                f"{statistics.median(last) * 1000:.1f}",
            ]
        )
    return rows


@dataclass
class Saves:
    """What it takes to save one message more."""

    own: float
    added: dict[str, float]
    written: dict[str, float]


def one_more(
    storages: dict[str, Any], length: int, rounds: int, written: Callable[[], int | None]
) -> Saves:
    """Saves one message more at a length, on each storage in turns."""
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
    added: dict[str, list[float]] = {name: [] for name in storages}
    grown: dict[str, list[int]] = {name: [] for name in storages}

    async def measure() -> None:
        for number in range(rounds + 1):
            agent.messages.append(said(length + number))
            started = time.perf_counter()
            snapshot = agent.take_snapshot(preset="session", include=["system_prompt"])
            data = _serialize_snapshot(snapshot)
            own.append(time.perf_counter() - started)
            for name, storage in storages.items():
                before = written() or 0
                started = time.perf_counter()
                await storage.write(key, data)
                added[name].append(time.perf_counter() - started)
                grown[name].append((written() or 0) - before)

    asyncio.run(measure())
    # The first writes the whole conversation.
    return Saves(
        statistics.median(own[1:]),
        {name: statistics.median(found[1:]) for name, found in added.items()},
        {name: statistics.fmean(found[1:]) for name, found in grown.items()},
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
        saves = one_more({ours: DjangoStorage(using=alias)}, length, rounds, written)
        after = [model.objects.using(alias).count() for model in (SessionMessage, Snapshot)]
        found.append(saves)
        # Those of the first save are the conversation itself.
        rows.append(sum(after) - sum(before) - length)
    saves = found[-1]
    ratio = 1 + saves.added[ours] / saves.own
    yield Verdict(
        f"a snapshot save at {long:,} messages, time",
        f"at most {MOST:g}×",
        ours,
        f"{ratio:.2f}×",
        f"the SDK's own part: {saves.own * 1_000:.0f} ms",
        ratio <= MOST,
    )
    less, more = (saves.written[ours] for saves in found)
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


def main() -> int:
    """Runs the measurement."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.snapshots", description=__doc__)
    parser.add_argument("--turns", type=int, default=500)
    parser.add_argument("--length", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.settings"
    import django

    django.setup()
    logging.disable(logging.WARNING)
    from strands.storage import LocalFileStorage

    from django_agent_sessions.adapters.strands import DjangoStorage

    from . import databases

    with (
        databases.prepared("sqlite"),
        s3_storage() as s3,
        tempfile.TemporaryDirectory() as folder,
    ):
        storages = {
            NOTHING: Nothing(),
            OURS: DjangoStorage(using="sqlite"),
            "LocalFileStorage": LocalFileStorage(folder),
            "S3Storage, moto": s3,
        }
        print(f"load at the start: {os.getloadavg()[0]:.1f}\n")
        head = ["storage", "MB written", "bytes per save", "rows", "seconds", "ms per late save"]
        print(table(head, talked(storages, arguments.turns)) + "\n")
        saves = one_more(storages, arguments.length, arguments.rounds, lambda: None)
        rows = [["the SDK's own part", f"{saves.own * 1000:.1f}", "1.00"]]
        for name, added in saves.added.items():
            if name != NOTHING:
                rows.append([name, f"{added * 1000:.1f}", f"{1 + added / saves.own:.2f}"])
        print(table(["one save", "ms", "× the SDK's own part"], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
