"""Starts a topology, runs a command in it, and takes it down.

    python -m benchmarks.topologies pgbouncer python -m pytest tests/store
    python -m benchmarks.topologies replica python -m pytest tests/topologies

The command finds the servers by its environment; the program ends as the command does.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from benchmarks.servers import PostgreSQLServer, end_on_sigterm, scratch

from .pgbouncer import PgBouncer
from .replica import Replica

Environment = dict[str, str]

DELAY = "2s"
"""How far the replica is behind."""


@contextmanager
def pgbouncer(directory: Path) -> Iterator[Environment]:
    """A pooler in transaction mode. ``PGDIRECTPORT`` is the server's own port."""
    with (
        PostgreSQLServer(directory / "server") as server,
        PgBouncer(directory / "pooler", server) as pooler,
    ):
        yield {
            "TEST_DATABASE": "postgresql",
            "PGHOST": pooler.host,
            "PGPORT": str(pooler.port),
            "PGUSER": "postgres",
            "PGDIRECTPORT": str(server.port),
        }


@contextmanager
def replica(directory: Path) -> Iterator[Environment]:
    """A primary, and a replica two seconds behind. ``REPLICAPORT`` is the replica's."""
    with (
        PostgreSQLServer(directory / "primary") as primary,
        Replica(directory / "replica", primary, delay=DELAY) as standby,
    ):
        yield {
            "TEST_DATABASE": "postgresql",
            "PGHOST": primary.host,
            "PGPORT": str(primary.port),
            "PGUSER": "postgres",
            "REPLICAPORT": str(standby.port),
        }


TOPOLOGIES: dict[str, Callable[[Path], AbstractContextManager[Environment]]] = {
    "pgbouncer": pgbouncer,
    "replica": replica,
}


def main() -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.topologies", description=__doc__)
    parser.add_argument("topology", choices=sorted(TOPOLOGIES))
    parser.add_argument("command", nargs=argparse.REMAINDER)
    asked = parser.parse_args()
    end_on_sigterm()
    with scratch() as directory, TOPOLOGIES[asked.topology](directory) as environment:
        for name, value in environment.items():
            print(f"{name}={value}", flush=True)
        if not asked.command:
            input("It runs. Press Enter to end it. ")
            return 0
        return subprocess.run(
            asked.command, env={**os.environ, **environment}, check=False
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
