"""What a server holds over time: memory, files, threads, and connections at the database."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")
_OWN = "load: watching"


@dataclass(frozen=True)
class Sample:
    """What was held at a moment."""

    at: float
    """Seconds since the watch began."""

    rss: int
    """Bytes of memory, of all processes together."""

    files: int
    threads: int
    cpu: float
    """Seconds of processor time so far."""

    connections: Mapping[str, int]
    """By name of the application."""

    busy: int
    """Connections that ran a statement, or had a transaction open."""

    @property
    def connected(self) -> int:
        """All connections of the server's."""
        return sum(self.connections.values())


class Watch:
    """Looks once a second, in a thread."""

    def __init__(
        self, processes: Callable[[], Sequence[int]], database: Mapping[str, Any] | None
    ) -> None:
        self.samples: list[Sample] = []
        self._processes = processes
        self._database = database
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def stop(self) -> None:
        """Ends."""
        self._ending.set()
        self._thread.join()

    def look(self) -> Sample:
        """Looks once, now."""
        with self._connected() as connection:
            return _look(0, self._processes(), connection)

    def _watch(self) -> None:
        began = time.monotonic()
        with self._connected() as connection:
            while not self._ending.wait(1):
                at = time.monotonic() - began
                self.samples.append(_look(at, self._processes(), connection))

    def _connected(self) -> AbstractContextManager[psycopg.Connection[Any] | None]:
        if self._database is None:
            return nullcontext()
        return psycopg.connect(**self._database, autocommit=True, application_name=_OWN)


def _look(
    at: float, processes: Sequence[int], connection: psycopg.Connection[Any] | None
) -> Sample:
    rss = files = threads = 0
    cpu = 0.0
    for pid in processes:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            rss += int(fields[21]) * _PAGE
            threads += int(fields[17])
            cpu += (int(fields[11]) + int(fields[12])) / _TICKS
            files += len(os.listdir(f"/proc/{pid}/fd"))
        except OSError:
            continue
    rows = []
    if connection is not None:
        rows = connection.execute(
            "SELECT application_name, count(*), count(*) FILTER (WHERE state <> 'idle') "
            "FROM pg_stat_activity WHERE datname = current_database() "
            "AND application_name <> %s AND backend_type = 'client backend' GROUP BY 1",
            [_OWN],
        ).fetchall()
    return Sample(
        at=at,
        rss=rss,
        files=files,
        threads=threads,
        cpu=cpu,
        connections={name: count for name, count, _ in rows},
        busy=sum(busy for *_, busy in rows),
    )


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Fits a line by least squares."""
    if len(points) < 2:
        return 0.0
    middle = sum(at for at, _ in points) / len(points)
    spread = sum((at - middle) ** 2 for at, _ in points)
    return sum((at - middle) * value for at, value in points) / spread
