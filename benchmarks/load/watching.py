"""What a server holds over time: memory, files, threads, and connections at the database."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any

import psutil
import psycopg

_OWN = "load: watching"


@dataclass(frozen=True)
class Sample:
    """What was held at a moment, by all processes together."""

    at: float
    """Seconds since the watch began."""

    rss: int
    """Bytes of memory."""

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
    """Looks once a second, in a thread, at a server and at its database if that is PostgreSQL."""

    def __init__(self, server: psutil.Process, database: Mapping[str, Any] | None) -> None:
        self.samples: list[Sample] = []
        self._server = server
        self._database = database
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    def look(self) -> Sample:
        """Look once, now."""
        with self._connected() as connection:
            return self._look(0, connection)

    def _watch(self) -> None:
        began = time.monotonic()
        with self._connected() as connection:
            while not self._ending.wait(1):
                self.samples.append(self._look(time.monotonic() - began, connection))

    def _connected(self) -> AbstractContextManager[psycopg.Connection[Any] | None]:
        if self._database is None:
            return nullcontext()
        return psycopg.connect(**self._database, autocommit=True, application_name=_OWN)

    def _look(self, at: float, connection: psycopg.Connection[Any] | None) -> Sample:
        rss = files = threads = 0
        cpu = 0.0
        for process in [self._server, *self._server.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess), process.oneshot():
                rss += process.memory_info().rss
                threads += process.num_threads()
                cpu += sum(process.cpu_times()[:2])
                files += process.num_fds()
        rows = _connections(connection) if connection is not None else []
        connected = {name: count for name, count, _ in rows}
        return Sample(at, rss, files, threads, cpu, connected, sum(busy for *_, busy in rows))


def _connections(connection: psycopg.Connection[Any]) -> list[tuple[str, int, int]]:
    return connection.execute(
        "SELECT application_name, count(*), count(*) FILTER (WHERE state <> 'idle') "
        "FROM pg_stat_activity WHERE datname = current_database() "
        "AND application_name <> %s AND backend_type = 'client backend' GROUP BY 1",
        [_OWN],
    ).fetchall()
