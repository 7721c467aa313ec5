"""The databases that are broken: how each is made, reached, and what can be done to it."""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.servers import MariaDBServer, PostgreSQLServer, Server, ServerError
from benchmarks.servers.mariadb import client
from benchmarks.servers.proxy import Proxy

NAME = "chaos"
LOCK_SECONDS = 1.5
"""How long a writer waits for a lock before its database refuses it."""

_SESSIONS = "agent_sessions_session"
_MESSAGES = "agent_sessions_sessionmessage"


class Ground(ABC):
    """A database of the run's own."""

    unprivileged = False
    """Whether writers must give up root's rights for permissions to mean something."""

    def __init__(self, disk: Path, chance: random.Random) -> None:
        self.disk = disk
        self.chance = chance

    @property
    def files(self) -> list[Path]:
        """Folders of files in which nothing may stand that was redacted."""
        return []

    @abstractmethod
    def start(self) -> None:
        """Makes the database, empty."""

    @abstractmethod
    def entry(self) -> dict[str, Any]:
        """Describes it as the writers reach it."""

    @abstractmethod
    def hold_locks(self, seconds: float) -> str:
        """Holds locks that writers want."""

    @contextlib.contextmanager
    @abstractmethod
    def read_only(self) -> Iterator[None]:
        """Lets nobody write for the time of a block."""

    @abstractmethod
    def heal(self) -> None:
        """Brings up again what a fault has ended."""

    @abstractmethod
    def close(self) -> None:
        """Ends it."""


class SQLiteGround(Ground):
    """A file."""

    unprivileged = True

    @property
    def file(self) -> Path:
        """The database."""
        return self.disk / "database" / "chaos.sqlite3"

    @property
    def files(self) -> list[Path]:
        return [self.file.parent]

    def start(self) -> None:
        self.file.parent.mkdir()

    def entry(self) -> dict[str, Any]:
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": str(self.file),
            "OPTIONS": {
                "transaction_mode": "IMMEDIATE",
                "timeout": LOCK_SECONDS,
                "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
            },
        }

    def heal(self) -> None:
        """Nothing of a file is ended by a fault."""

    def close(self) -> None:
        """Nothing runs."""

    def hold_locks(self, seconds: float) -> str:
        with contextlib.closing(sqlite3.connect(self.file, timeout=10)) as connection:
            connection.isolation_level = None
            connection.execute("BEGIN IMMEDIATE")
            time.sleep(seconds)
            connection.execute("ROLLBACK")
        return "the lock of all writers"

    @contextlib.contextmanager
    def read_only(self) -> Iterator[None]:
        # A connection that is open keeps what it may do, so this is for those that are opened.
        places = [self.file.parent, *self.file.parent.iterdir()]
        modes = {place: place.stat().st_mode for place in places}
        for place in places:
            place.chmod(0o555 if place.is_dir() else 0o444)
        try:
            yield
        finally:
            for place, mode in modes.items():
                with contextlib.suppress(FileNotFoundError):
                    place.chmod(mode)


class ServerGround(Ground):
    """A server, reached through a proxy."""

    server: Server

    def start(self) -> None:
        self.proxy = Proxy(lambda: self.server.port)
        self.server.start()
        self.server.create(NAME)

    def entry(self) -> dict[str, Any]:
        return {**self.server.django(NAME), "PORT": str(self.proxy.port)}

    @abstractmethod
    def kill_backends(self) -> str:
        """Ends some connections from the server's side."""

    @abstractmethod
    def provoke_deadlock(self) -> str:
        """Takes two sessions' rows in an order that may be another's the other way round."""

    def restart(self, seconds: float) -> str:
        """Ends the server in good order, as for an update, and starts it again after a time."""
        self.server.stop()
        time.sleep(seconds)
        self.heal()
        return "in good order"

    def restart_by_kill(self, seconds: float) -> str:
        """Kills the server, and starts it again after a time."""
        self.server.kill()
        time.sleep(seconds)
        self.heal()
        return "SIGKILL"

    def heal(self) -> None:
        deadline = time.monotonic() + 90
        while not self.server.answers():
            if self.server.pid is None:
                self.server.kill()
                with contextlib.suppress(ServerError):
                    self.server.start()
            if time.monotonic() > deadline:
                raise ServerError(f"it did not come up again:\n{self.server.last_lines()}")
            time.sleep(0.05)

    def close(self) -> None:
        self.proxy.close()
        self.server.destroy()


class PostgreSQLGround(ServerGround):
    """PostgreSQL."""

    def __init__(self, disk: Path, chance: random.Random) -> None:
        super().__init__(disk, chance)
        settings = {
            "max_wal_size": "96MB",
            "min_wal_size": "32MB",
            "deadlock_timeout": "200ms",
            "shared_buffers": "64MB",
        }
        self._server = PostgreSQLServer(disk / "server", settings=settings)
        self.server = self._server

    def entry(self) -> dict[str, Any]:
        milliseconds = int(LOCK_SECONDS * 1000)
        options = {"options": f"-c lock_timeout={milliseconds}", "connect_timeout": 5}
        return {**super().entry(), "OPTIONS": options}

    def kill_backends(self) -> str:
        ended = self._server.run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = 'chaos' AND random() < 0.5"
        )
        return f"{len(ended)} backends"

    def hold_locks(self, seconds: float) -> str:
        with self._connected() as connection:
            if self.chance.random() < 0.5:
                connection.execute(f"LOCK TABLE {_MESSAGES} IN SHARE ROW EXCLUSIVE MODE")
                what = "the table of messages"
            else:
                connection.execute(
                    f"SELECT id FROM {_SESSIONS} ORDER BY id DESC LIMIT 6 FOR UPDATE"
                )
                what = "the rows of the newest sessions"
            time.sleep(seconds)
        return what

    def provoke_deadlock(self) -> str:
        with self._connected() as connection:
            keys = connection.execute(f"SELECT id FROM {_SESSIONS} ORDER BY id DESC LIMIT 8")
            rows = [key for (key,) in keys]
            for key in self.chance.sample(rows, min(4, len(rows))):
                connection.execute(f"SELECT 1 FROM {_SESSIONS} WHERE id = %s FOR UPDATE", [key])
                time.sleep(0.05)
        return "rows of sessions, one by one"

    @contextlib.contextmanager
    def read_only(self) -> Iterator[None]:
        self._read_only("on")
        try:
            yield
        finally:
            self._read_only("off")

    def _read_only(self, value: str) -> None:
        statement = "ALTER SYSTEM SET default_transaction_read_only = "
        with psycopg.connect(**self._reached(), autocommit=True) as connection:
            connection.execute("SET default_transaction_read_only = off")
            connection.execute(statement + value)
            connection.execute("SELECT pg_reload_conf()")

    @contextlib.contextmanager
    def _connected(self) -> Iterator[psycopg.Connection[Any]]:
        with psycopg.connect(**self._reached(), connect_timeout=5) as connection:
            connection.execute("SET LOCAL lock_timeout = '3s'")
            yield connection
            connection.rollback()

    def _reached(self) -> dict[str, Any]:
        return {
            "host": self.server.host,
            "port": self.server.port,
            "user": "postgres",
            "dbname": NAME,
        }


class MariaDBGround(ServerGround):
    """MariaDB; the writers come as a user who is no administrator."""

    def __init__(self, disk: Path, chance: random.Random) -> None:
        super().__init__(disk, chance)
        settings = {
            "innodb_buffer_pool_size": "64M",
            "innodb_flush_method": "fsync",
            "innodb_lock_wait_timeout": "2",
            "lock_wait_timeout": "2",
        }
        self._server = MariaDBServer(disk / "server", settings=settings)
        self.server = self._server

    def start(self) -> None:
        super().start()
        self._server.run("CREATE USER app@'%' IDENTIFIED BY ''")
        self._server.run(f"GRANT ALL PRIVILEGES ON {NAME}.* TO app@'%'")

    def entry(self) -> dict[str, Any]:
        return {**super().entry(), "USER": "app"}

    def kill_backends(self) -> str:
        rows = self._server.run("SELECT id FROM information_schema.processlist WHERE user = 'app'")
        killed = [key for (key,) in rows if self.chance.random() < 0.5]
        for key in killed:
            # It may have ended by itself.
            with contextlib.suppress(Exception):
                self._server.run(f"KILL CONNECTION {key}")
        return f"{len(killed)} connections"

    def hold_locks(self, seconds: float) -> str:
        with self._connected() as cursor:
            if self.chance.random() < 0.3:
                cursor.execute(f"LOCK TABLES {_MESSAGES} WRITE")
                what = "the table of messages"
            else:
                cursor.execute("BEGIN")
                cursor.execute(f"SELECT id FROM {_SESSIONS} ORDER BY id DESC LIMIT 6 FOR UPDATE")
                what = "the rows of the newest sessions"
            time.sleep(seconds)
            cursor.execute("ROLLBACK")
            cursor.execute("UNLOCK TABLES")
        return what

    def provoke_deadlock(self) -> str:
        with self._connected() as cursor:
            cursor.execute(f"SELECT id FROM {_SESSIONS} ORDER BY id DESC LIMIT 8")
            rows = [key for (key,) in cursor.fetchall()]
            cursor.execute("BEGIN")
            for key in self.chance.sample(rows, min(4, len(rows))):
                cursor.execute(f"SELECT 1 FROM {_SESSIONS} WHERE id = %s FOR UPDATE", [key])
                time.sleep(0.05)
            cursor.execute("ROLLBACK")
        return "rows of sessions, one by one"

    @contextlib.contextmanager
    def read_only(self) -> Iterator[None]:
        self._server.run("SET GLOBAL read_only = 1")
        try:
            yield
        finally:
            self._server.run("SET GLOBAL read_only = 0")

    @contextlib.contextmanager
    def _connected(self) -> Iterator[Any]:
        connection = client().connect(
            host=self.server.host,
            port=self.server.port,
            user="root",
            database=NAME,
            connect_timeout=5,
        )
        try:
            yield connection.cursor()
        finally:
            connection.close()


def ground_named(name: str, disk: Path, chance: random.Random) -> Ground:
    """Makes the ground for a database."""
    kinds: dict[str, type[Ground]] = {
        "sqlite": SQLiteGround,
        "postgresql": PostgreSQLGround,
        "mariadb": MariaDBGround,
    }
    os.makedirs(disk, exist_ok=True)
    return kinds[name](disk, chance)
