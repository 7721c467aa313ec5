"""A PostgreSQL server of one run alone."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any, LiteralString

import psycopg
from psycopg import sql

from . import processes
from .interface import Server, ServerError


class PostgreSQLServer(Server):
    """PostgreSQL with the defaults of its own, whose commits are on the disk."""

    user = "postgres"
    end = signal.SIGINT

    def prepare(self) -> None:
        if not (self.data / "PG_VERSION").exists():
            self.initialize()
        self._write_settings()

    def initialize(self) -> None:
        """Fills the data directory."""
        # Not synced: the machine does not lose power between this and the first commit.
        options = ["--auth=trust", "--username=postgres", "--no-sync", "--no-instructions"]
        locale = ["--encoding=UTF8", "--locale=C.UTF-8"]
        processes.run(
            [program("initdb"), "-D", self.data, *options, *locale],
            user=self.user,
            directory=self.directory,
        )

    def command(self) -> list[str | Path]:
        return [program("postgres"), "-D", self.data]

    def answers(self) -> bool:
        try:
            self.run("SELECT 1")
        except psycopg.Error:
            return False
        return True

    def create(self, name: str) -> None:
        self.run(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))

    def run(
        self,
        statement: sql.SQL | sql.Composed | LiteralString,
        database: str = "postgres",
        *values: Any,
    ) -> list[tuple[Any, ...]]:
        """Runs one statement as the superuser."""
        with psycopg.connect(
            host=self.host,
            port=self.port,
            user="postgres",
            dbname=database,
            autocommit=True,
            connect_timeout=5,
        ) as connection:
            composed = sql.SQL(statement) if isinstance(statement, str) else statement
            cursor = connection.execute(composed, values or None)
            return cursor.fetchall() if cursor.description else []

    def django(self, name: str) -> dict[str, Any]:
        return {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": name,
            "HOST": self.host,
            "PORT": str(self.port),
            "USER": "postgres",
            "PASSWORD": "",
        }

    def _write_settings(self) -> None:
        given = {
            "listen_addresses": self.host,
            "port": str(self.port),
            # Its path may be longer than a socket's name can be.
            "unix_socket_directories": "",
            "max_connections": "200",
            **self.settings,
        }
        lines = [
            f"{name} = '{value.replace(chr(39), chr(39) * 2)}'" for name, value in given.items()
        ]
        (self.data / "postgresql.conf").write_text("\n".join(lines) + "\n")


def program(name: str) -> Path:
    """Finds a program of the newest PostgreSQL that is installed here, as Debian installs it."""
    found = sorted(
        Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[4])
    )
    if not found:
        raise ServerError(f"{name} of PostgreSQL is not installed below /usr/lib/postgresql")
    return found[-1]
