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
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

BUCKET = "benchmark"
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
    """Lets an agent talk.

    Returns:
        Seconds in all.
    """
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
    import boto3
    from strands.storage import S3Storage

    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
    code = (
        "from moto.server import ThreadedMotoServer as S; s = S('127.0.0.1', port=0, verbose=False)"
        "; s.start(); print(s.get_host_and_port()[1], flush=True); input()"
    )
    server = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert server.stdout is not None
        endpoint = f"http://127.0.0.1:{server.stdout.readline().strip()}"
        os.environ.update(
            AWS_ACCESS_KEY_ID="test", AWS_SECRET_ACCESS_KEY="test", AWS_ENDPOINT_URL=endpoint
        )
        session = boto3.Session(**keys, region_name="us-east-1")
        session.client("s3", endpoint_url=endpoint).create_bucket(Bucket=BUCKET)
        yield S3Storage(BUCKET, boto_session=session)
    finally:
        server.communicate("\n")


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


def one_more(storages: dict[str, Any], length: int, rounds: int) -> list[list[str]]:
    """Saves one message more at a length, on each storage in turns."""
    from strands import Agent
    from strands.session.snapshot_session_manager import _serialize_snapshot

    from tests.adapters.strands.scripted import ScriptedModel

    key = "session/long/scopes/agent/default/snapshots/snapshot_latest.json"

    def said(number: int) -> Any:
        role = ("user", "assistant")[number % 2]
        return {"role": role, "content": [{"text": "x" * 450}], "tracking_id": f"id-{number}"}

    agent = Agent(
        model=ScriptedModel(),
        callback_handler=None,
        messages=[said(number) for number in range(length)],
    )
    own: list[float] = []
    taken: dict[str, list[float]] = {name: [] for name in storages}

    async def measure() -> None:
        for number in range(rounds + 1):
            agent.messages.append(said(length + number))
            started = time.perf_counter()
            snapshot = agent.take_snapshot(preset="session", include=["system_prompt"])
            data = _serialize_snapshot(snapshot)
            own.append(time.perf_counter() - started)
            for name, storage in storages.items():
                started = time.perf_counter()
                await storage.write(key, data)
                taken[name].append(time.perf_counter() - started)

    asyncio.run(measure())
    # The first writes the whole conversation.
    part = statistics.median(own[1:])
    rows = [["the SDK's own part", f"{part * 1000:.1f}", "1.00"]]
    for name, seconds in taken.items():
        if name != NOTHING:
            added = statistics.median(seconds[1:])
            rows.append([name, f"{added * 1000:.1f}", f"{1 + added / part:.2f}"])
    return rows


def table(head: list[str], rows: list[list[str]]) -> str:
    """Writes a table in Markdown."""
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


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
        rows = one_more(storages, arguments.length, arguments.rounds)
        print(table(["one save", "ms", "× the SDK's own part"], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
