"""``python -m benchmarks.events``: what streams of events take of a server, and how fast they are.

One uvicorn process on SQLite and on PostgreSQL (PGHOST, PGPORT, PGUSER, PGPASSWORD), there with and
without ``LISTEN_DATABASE``. Streams of one session, and streams of a session each.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from . import event_server, postgresql
from .tables import table

MOST_SECONDS = 0.4
"""How long a message may take until it is at all streams."""

MOST_PROCESSOR = 0.0025
"""Seconds of processor time for each stream and message."""

MOST_SLOWER = 1.3
"""How much slower an append may be while messages go to the streams."""

VARIANTS = {
    "SQLite": ("sqlite", ""),
    "PostgreSQL": ("postgresql", ""),
    "PostgreSQL, LISTEN": ("postgresql", "default"),
}
_PAUSE = 0.7
"""Seconds between two messages, so that each is sent by itself."""

_APPEND_PAUSE = 0.02
"""Seconds between two appends to the session without streams."""


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    streams: int = 200
    messages: int = 15
    idle_seconds: float = 20


@dataclass
class Figures:
    """What was measured with streams of some sessions."""

    arrivals: list[list[float]] = field(default_factory=list)
    """Of each message, the seconds until each of its streams had it."""

    processor: float = 0.0
    """Seconds for each stream and message, in addition to the appends."""

    idle_append: float = 0.0
    append: float = 0.0
    memory: float = 0.0
    """Bytes for each stream."""

    idle_processor: float = 0.0
    """Share of a processor while nothing happens."""

    @property
    def usual(self) -> float:
        """The median time until the last stream has a message."""
        return median(max(each) for each in self.arrivals)

    @property
    def worst(self) -> float:
        """The longest time until a stream had a message."""
        return max(max(each) for each in self.arrivals)


class Stream:
    """An open stream, which notes when its messages arrive."""

    def __init__(self) -> None:
        self.arrived: asyncio.Queue[float] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def open(self, port: int, session: Any, cookie: str) -> None:
        reader, self._writer = await asyncio.open_connection("127.0.0.1", port)
        head = f"GET /{session}/ HTTP/1.1\r\nHost: localhost\r\nCookie: {cookie}\r\n\r\n"
        self._writer.write(head.encode())
        while (line := await reader.readline()) != b"event: ready\n":
            assert line, "the stream was refused"
        self._task = asyncio.create_task(self._read(reader))

    async def _read(self, reader: asyncio.StreamReader) -> None:
        while line := await reader.readline():
            if line == b"event: message\n":
                self.arrived.put_nowait(time.monotonic())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
        if self._writer is not None:
            self._writer.close()


class Site:
    """A server with sessions of one user."""

    def __init__(self, port: int, process: psutil.Process, cookie: str, keys: list[Any]) -> None:
        self.port = port
        self.process = process
        self.cookie = cookie
        self.keys = keys

    async def ask(self, path: str) -> dict[str, Any]:
        """Return what the server answers."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        request = f"GET /{path}/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        writer.write(request.encode())
        body = (await reader.read()).partition(b"{")[2].partition(b"}")[0]
        writer.close()
        found: dict[str, Any] = json.loads(b"{%b}" % body)
        return found

    async def processor(self) -> float:
        """Return the processor time that the server took."""
        return float((await self.ask("processor"))["seconds"])

    async def measure(self, sessions: int, plan: Plan) -> Figures:
        """Measure streams of the first sessions, as many in all as planned."""
        found = Figures()
        numbers = [number % sessions for number in range(plan.streams)]
        idle, before = await self._speak(sessions, plan, [])
        memory = self.process.memory_info().rss
        streams = [Stream() for _ in numbers]
        for first in range(0, len(streams), 8):
            part = zip(streams[first : first + 8], numbers[first : first + 8], strict=False)
            await asyncio.gather(
                *(stream.open(self.port, self.keys[n], self.cookie) for stream, n in part)
            )
        await asyncio.sleep(4)
        found.memory = (self.process.memory_info().rss - memory) / plan.streams
        if plan.idle_seconds:
            began = await self.processor()
            await asyncio.sleep(plan.idle_seconds)
            found.idle_processor = (await self.processor() - began) / plan.idle_seconds
        listening = list(zip(numbers, streams, strict=True))
        # The first messages start what is started once.
        await self._speak(sessions, Plan(messages=2), listening)
        busy, found.processor = await self._speak(sessions, plan, listening, found.arrivals)
        for stream in streams:
            await stream.close()
        await asyncio.sleep(2)
        idle_again, after = await self._speak(sessions, plan, [])
        found.processor -= (before + after) / 2
        found.processor /= plan.messages * plan.streams
        found.idle_append, found.append = median(idle + idle_again), median(busy)
        return found

    async def _speak(
        self,
        sessions: int,
        plan: Plan,
        listening: Sequence[tuple[int, Stream]],
        arrivals: list[list[float]] | None = None,
    ) -> tuple[list[float], float]:
        """Append messages to the sessions; return how long appends elsewhere took meanwhile.

        Also returns the processor time that the server took.
        """
        times: list[float] = []
        began = await self.processor()
        names = ",".join(map(str, range(sessions)))
        other = asyncio.create_task(self._append_elsewhere(times))
        for _ in range(plan.messages):
            written = (await self.ask(f"append/{names}"))["acknowledged"]
            took = [await stream.arrived.get() - written[number] for number, stream in listening]
            if arrivals is not None:
                arrivals.append(took)
            await asyncio.sleep(_PAUSE)
        other.cancel()
        return times, await self.processor() - began

    async def _append_elsewhere(self, times: list[float]) -> None:
        while True:
            times.append((await self.ask("append/elsewhere"))["seconds"])
            await asyncio.sleep(_APPEND_PAUSE)


def fill(sessions: int) -> tuple[list[Any], str]:
    """Make sessions; return their keys, and the cookie of their owner."""
    from django.contrib.auth import get_user_model
    from django.core.management import call_command
    from django.db import connections
    from django.test import Client

    from django_agent_sessions.store import SessionStore

    from .messages import strands_messages

    call_command("migrate", verbosity=0)
    user = get_user_model().objects.create_user("ada")
    store = SessionStore(owner=user)
    keys = []
    for name in [*map(str, range(sessions)), "elsewhere"]:
        session = store.open(name)
        agent = store.agents.open(session, dialect="strands")
        store.append_many(agent, strands_messages(10))
        keys.append(session.id)
    browser = Client()
    browser.force_login(user)
    connections.close_all()
    return keys, "; ".join(f"{name}={each.value}" for name, each in browser.cookies.items())


@contextmanager
def serving(database: str, name: str, listen: str) -> Iterator[tuple[int, psutil.Process]]:
    """Serve a database; yields the port and the process."""
    command = [sys.executable, "-m", "benchmarks.event_server", database, name, listen]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield int(server.stdout.readline()), psutil.Process(server.pid)
        finally:
            server.terminate()
            server.wait(20)


def measure(variant: str, plan: Plan) -> dict[str, Figures]:
    """Measure a database, which this process is configured for once."""
    database, listen = VARIANTS[variant]
    with ExitStack() as stack:
        if database == "postgresql":
            name = f"agent_sessions_events_{os.getpid()}"
            stack.enter_context(postgresql.database(name))
        else:
            directory = stack.enter_context(tempfile.TemporaryDirectory())
            name = str(Path(directory) / "events.sqlite3")
        event_server.configure(database, name)
        keys, cookie = fill(plan.streams)
        found = {}
        for sessions, what in ((1, "one session"), (plan.streams, "a session each")):
            with serving(database, name, listen) as (port, process):
                site = Site(port, process, cookie, keys)
                found[what] = asyncio.run(site.measure(sessions, plan))
    return found


def report(variant: str, found: dict[str, Figures], plan: Plan) -> str:
    """Return the table and the verdicts of a database."""
    rows = []
    for what, figures in found.items():
        slower = figures.append / figures.idle_append
        verdicts = {
            f"{figures.usual:.2f} s": figures.usual <= MOST_SECONDS,
            f"{figures.processor * 1000:.2f} ms": figures.processor <= MOST_PROCESSOR,
            f"{slower:.2f}×": slower <= MOST_SLOWER,
        }
        missed = [each for each, kept in verdicts.items() if not kept]
        rows.append(
            [
                f"{variant}, {plan.streams} streams of {what}",
                f"{median(map(median, figures.arrivals)):.2f} s",
                f"{figures.usual:.2f} s",
                f"{figures.worst:.2f} s",
                f"{figures.processor * 1000:.2f} ms",
                f"{figures.idle_append * 1000:.1f} ms",
                f"{figures.append * 1000:.1f} ms ({slower:.2f}×)",
                f"{figures.memory / 1024:.0f} KB",
                f"{figures.idle_processor * 100:.1f} %",
                f"missed: {', '.join(missed)}" if missed else "kept",
            ]
        )
    return table(HEAD, rows)


HEAD = [
    "streams",
    "a message at half of them",
    "at all (median)",
    "at all (worst)",
    "processor, each stream and message",
    "append, no streams",
    "append meanwhile",
    "memory, each",
    "processor, idle",
    f"budget: {MOST_SECONDS} s, {MOST_PROCESSOR * 1000:g} ms, {MOST_SLOWER}×",
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int)
    parser.add_argument("--messages", type=int)
    parser.add_argument("--quick", action="store_true", help="a smoke test with few streams")
    parser.add_argument("--only", choices=VARIANTS, action="append")
    given = parser.parse_args()
    plan = Plan(20, 3, 0) if given.quick else Plan()
    if given.streams:
        plan = replace(plan, streams=given.streams)
    if given.messages:
        plan = replace(plan, messages=given.messages)
    if given.only and len(given.only) == 1:
        print(report(given.only[0], measure(given.only[0], plan), plan))
        return
    # Django is configured once in a process.
    for variant in given.only or VARIANTS:
        command = [sys.executable, "-m", "benchmarks.events", "--only", variant]
        command += ["--streams", str(plan.streams)]
        command += ["--quick"] if given.quick else []
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
