"""A MariaDB server of one run alone."""

from __future__ import annotations

import importlib
import shutil
import signal
from pathlib import Path
from typing import Any

from . import processes
from .interface import Server, ServerError


class MariaDBServer(Server):
    """MariaDB with InnoDB's defaults, whose commits are on the disk."""

    user = "mysql"
    end = signal.SIGTERM

    @property
    def temporary(self) -> Path:
        """Of its own, because a server that starts deletes the temporary tables of others."""
        return self.directory / "tmp"

    def prepare(self) -> None:
        if not (self.data / "mysql").exists():
            self.initialize()
        self._write_settings()

    def initialize(self) -> None:
        """Fills the data directory."""
        processes.own(self.data, self.user)
        processes.own(self.temporary, self.user)
        # A small redo log, because it is written out in full.
        options = ["--auth-root-authentication-method=normal", "--skip-test-db"]
        options += [
            "--skip-name-resolve",
            "--innodb-log-file-size=32M",
            f"--tmpdir={self.temporary}",
        ]
        processes.run(
            [program("mariadb-install-db"), "--no-defaults", f"--datadir={self.data}", *options],
            user=self.user,
            directory=self.directory,
        )

    def command(self) -> list[str | Path]:
        return [program("mariadbd"), f"--defaults-file={self.directory / 'my.cnf'}"]

    def answers(self) -> bool:
        try:
            self.run("SELECT 1")
        except client().Error:
            return False
        return True

    def create(self, name: str) -> None:
        self.run(f"CREATE DATABASE `{name}` CHARACTER SET utf8mb4")

    def run(
        self, statement: str, database: str = "", *, patience: int = 30
    ) -> list[tuple[Any, ...]]:
        """Runs one statement as root."""
        connection = client().connect(
            host=self.host,
            port=self.port,
            user="root",
            database=database,
            connect_timeout=min(patience, 5),
            read_timeout=patience,
            autocommit=True,
        )
        try:
            with connection.cursor() as cursor:
                cursor.execute(statement)
                return list(cursor.fetchall())
        finally:
            connection.close()

    def django(self, name: str) -> dict[str, Any]:
        return {
            "ENGINE": "django.db.backends.mysql",
            "NAME": name,
            "HOST": self.host,
            "PORT": str(self.port),
            "USER": "root",
            "PASSWORD": "",
            "OPTIONS": {"charset": "utf8mb4"},
        }

    def _write_settings(self) -> None:
        given = {
            "datadir": str(self.data),
            "tmpdir": str(self.temporary),
            "bind-address": self.host,
            "port": str(self.port),
            # Below /tmp its path is short enough for a socket's name.
            "socket": f"/tmp/agent-sessions-{self.port}.sock",  # noqa: S108 - nobody uses it
            "pid-file": str(self.directory / "pid"),
            "init-file": str(self.directory / "init.sql"),
            "max_connections": "200",
            "innodb_log_file_size": "32M",
            **self.settings,
        }
        lines = [f"{name} = {value}" for name, value in given.items()]
        (self.directory / "my.cnf").write_text("\n".join(["[mariadbd]", *lines]) + "\n")
        # Whoever comes by TCP has an address, and root at first has only a name.
        (self.directory / "init.sql").write_text(
            "GRANT ALL PRIVILEGES ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;\n"
        )


def client() -> Any:
    """The driver, which is compiled and so not always installed; it has no types."""
    return importlib.import_module("MySQLdb")


def program(name: str) -> str:
    """Finds a program of MariaDB."""
    found = shutil.which(name, path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
    if found is None:
        raise ServerError(f"{name} is not installed")
    return found
