"""Connections by SQLAlchemy, and the statements that read ``SQLAlchemySession``'s tables.

The tables are those of openai-agents 0.24, ``agents/extensions/memory/sqlalchemy_session.py``.
Nothing else imports SQLAlchemy, and this module is imported only where it is needed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    Select,
    column,
    create_engine,
    func,
    inspect,
    make_url,
    select,
    table,
)
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from django_agent_sessions.exceptions import ConfigurationError

from .openai_rows import ItemRow

T = TypeVar("T")

_SESSION_COLUMNS = ("session_id", "created_at", "updated_at")
_ITEM_COLUMNS = ("id", "session_id", "message_data", "created_at")


class Database:
    """A database by a sync driver. No piece of work leaves anything open."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def run(self, work: Callable[[Connection], T]) -> T:
        """Runs some work on a connection, and rolls back what it began."""
        with self._engine.connect() as connection:
            return work(connection)

    def close(self) -> None:
        """Closes the connections."""
        self._engine.dispose()


class AsyncDatabase:
    """A database by an async driver, in a thread and a loop of its own.

    The caller's thread may run a loop, which cannot wait for another one.
    """

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._runner = asyncio.Runner()
        self._thread = ThreadPoolExecutor(1, "agent-sessions-import")

    def run(self, work: Callable[[Connection], T]) -> T:
        """Runs some work on a connection, and rolls back what it began."""

        async def on_connection() -> T:
            async with self._engine.connect() as connection:
                return await connection.run_sync(work)

        return self._thread.submit(lambda: self._runner.run(on_connection())).result()

    def close(self) -> None:
        """Closes the connections, and ends the thread."""
        with self._thread:
            try:
                self._thread.submit(lambda: self._runner.run(self._engine.dispose())).result()
            finally:
                self._thread.submit(self._runner.close).result()


class Tables:
    """The two tables of a ``SQLAlchemySession``.

    What cannot be read is a ``ConfigurationError``, at each call.
    """

    def __init__(self, database: Database | AsyncDatabase, sessions: str, messages: str) -> None:
        self._database = database
        # Without types: values come as the driver gives them, and text compares as it is stored.
        self._sessions = table(sessions, *map(column, _SESSION_COLUMNS))
        self._messages = table(messages, *map(column, _ITEM_COLUMNS))

    def close(self) -> None:
        """Closes the connections."""
        self._database.close()

    def missing(self) -> str:
        """Looks whether both tables are there."""

        def look(connection: Connection) -> str:
            inspector = inspect(connection)
            for wanted in (self._sessions, self._messages):
                found = set()
                if inspector.has_table(wanted.name):
                    found = {each["name"] for each in inspector.get_columns(wanted.name)}
                missing = [each.name for each in wanted.c if each.name not in found]
                if missing:
                    return f"table {wanted.name!r} with {', '.join(missing)}"
            return ""

        return self._run(look)

    def count(self) -> int:
        """Counts the sessions."""
        return int(self._all(select(func.count()).select_from(self._sessions))[0][0])

    def names(self) -> list[str]:
        """Lists the sessions."""
        name = self._sessions.c.session_id
        return [row[0] for row in self._all(select(name).order_by(name))]

    def times(self, names: Sequence[str]) -> dict[str, tuple[object, object]]:
        """Tells when sessions were made and last changed."""
        columns = self._sessions.c
        found = self._all(select(self._sessions).where(columns.session_id.in_(names)))
        return {name: (created_at, updated_at) for name, created_at, updated_at in found}

    def keys(self, name: str) -> list[int]:
        """Lists the items of a session."""
        columns = self._messages.c
        found = self._all(
            select(columns.id)
            .where(columns.session_id == name)
            .order_by(columns.created_at, columns.id)
        )
        return [row[0] for row in found]

    def items(self, keys: Sequence[int]) -> list[ItemRow]:
        """Reads items."""
        columns = self._messages.c
        wanted = select(columns.id, columns.message_data, columns.created_at)
        return [ItemRow(*row) for row in self._all(wanted.where(columns.id.in_(list(keys))))]

    def _all(self, statement: Select[Any]) -> Sequence[Any]:
        return self._run(lambda connection: connection.execute(statement).all())

    def _run(self, work: Callable[[Connection], T]) -> T:
        try:
            return self._database.run(work)
        except (OSError, SQLAlchemyError) as error:
            # The driver's own words, which name the server; never the URL, which has a password.
            reason = getattr(error, "orig", None) or error
            raise ConfigurationError(
                f"the database cannot be read ({type(reason).__name__}: {reason}): give the URL "
                "that the SDK was given, from where its server can be reached"
            ) from None


def connect(url: str) -> Database | AsyncDatabase:
    """Makes an engine. It connects when it is used."""
    try:
        parsed = _for_reading(make_url(url))
        # Parameters of a statement are ids, but an error names none of them all the same.
        if parsed.get_dialect().is_async:
            return AsyncDatabase(
                create_async_engine(parsed, pool_pre_ping=True, hide_parameters=True)
            )
        return Database(create_engine(parsed, pool_pre_ping=True, hide_parameters=True))
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"the URL's driver {error.name!r} is not installed: install it, or write a driver that "
            "is, such as postgresql+psycopg://"
        ) from None
    except ArgumentError:
        raise ConfigurationError(
            "this is no URL of a database that SQLAlchemy knows: give the one that the SDK was "
            "given, such as postgresql+asyncpg://user:password@host/name"
        ) from None


def _for_reading(url: URL) -> URL:
    """Opens an SQLite file for reading only, and makes none that is not there."""
    if url.get_backend_name() != "sqlite":
        return url
    url = url.set(drivername="sqlite")
    if url.database and url.database.startswith("file:"):
        return url
    file = Path(url.database or ":memory:")
    if not file.is_file():
        raise ConfigurationError(f"{file} is no file: give the SDK's SQLite file")
    return url.set(database=file.resolve().as_uri()).update_query_dict(
        {"mode": "ro", "uri": "true"}
    )
