"""PgBouncer in transaction mode before a PostgreSQL server."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.servers import PostgreSQLServer, Server, ServerError


class PgBouncer(Server):
    """PgBouncer, which gives a connection to the server away at the end of each transaction.

    Nothing is reset between two clients, as is its default in this mode: what one of them set
    for its session meets the next.
    """

    user = "postgres"
    end = signal.SIGINT

    def __init__(
        self,
        directory: Path | str,
        behind: PostgreSQLServer,
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(directory, port, settings)
        self.behind = behind

    def prepare(self) -> None:
        given = {
            "listen_addr": self.host,
            "listen_port": str(self.port),
            "unix_socket_dir": "",
            "auth_type": "trust",
            "auth_file": str(self.directory / "users.txt"),
            "admin_users": "postgres",
            "pool_mode": "transaction",
            "default_pool_size": "20",
            "max_client_conn": "500",
            **self.settings,
        }
        lines = [
            "[databases]",
            # Every database of the server, made later or not.
            f"* = host={self.behind.host} port={self.behind.port}",
            "[pgbouncer]",
            *(f"{name} = {value}" for name, value in given.items()),
        ]
        (self.directory / "pgbouncer.ini").write_text("\n".join(lines) + "\n")
        (self.directory / "users.txt").write_text('"postgres" ""\n')

    def command(self) -> list[str | Path]:
        found = shutil.which("pgbouncer", path="/usr/sbin:/usr/bin:/usr/local/bin")
        if found is None:
            raise ServerError("pgbouncer is not installed")
        return [found, self.directory / "pgbouncer.ini"]

    def answers(self) -> bool:
        try:
            with psycopg.connect(
                host=self.host, port=self.port, user="postgres", dbname="postgres", autocommit=True
            ) as connection:
                connection.execute("SELECT 1")
        except psycopg.Error:
            return False
        return True

    def create(self, name: str) -> None:
        self.behind.create(name)

    def django(self, name: str) -> dict[str, Any]:
        return {
            **self.behind.django(name),
            "PORT": str(self.port),
            # A cursor of the server's lives in a session, which is somebody else's by then.
            "DISABLE_SERVER_SIDE_CURSORS": True,
        }
