"""SQLAlchemy connections, and queries on the tables of ``SQLAlchemySession``.

The tables are those of openai-agents 0.24, ``agents/extensions/memory/sqlalchemy_session.py``.
Only this module imports SQLAlchemy; import it lazily.
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
    """A database with a synchronous driver."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def run(self, work: Callable[[Connection], T]) -> T:
        """Call a function with a connection, then roll back."""
        with self._engine.connect() as connection:
            return work(connection)

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()


class AsyncDatabase:
    """A database with an asynchronous driver, in a separate thread with its own event loop.

    The caller's thread may already run an event loop.
    """

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._runner = asyncio.Runner()
        self._thread = ThreadPoolExecutor(1, "agent-sessions-import")

    def run(self, work: Callable[[Connection], T]) -> T:
        """Call a function with a connection, then roll back."""

        async def on_connection() -> T:
            async with self._engine.connect() as connection:
                return await connection.run_sync(work)

        return self._thread.submit(lambda: self._runner.run(on_connection())).result()

    def close(self) -> None:
        """Close the connections and end the thread."""
        with self._thread:
            try:
                self._thread.submit(lambda: self._runner.run(self._engine.dispose())).result()
            finally:
                self._thread.submit(self._runner.close).result()


class Tables:
    """The two tables of a ``SQLAlchemySession``; errors are raised as ``ConfigurationError``."""

    def __init__(self, database: Database | AsyncDatabase, sessions: str, messages: str) -> None:
        self._database = database
        # Without types: values are those of the driver, comparisons those of the database.
        self._sessions = table(sessions, *map(column, _SESSION_COLUMNS))
        self._messages = table(messages, *map(column, _ITEM_COLUMNS))

    def close(self) -> None:
        """Close the connections."""
        self._database.close()

    def missing(self) -> str:
        """Return the first missing table with its missing columns, or an empty string."""

        def find_missing(connection: Connection) -> str:
            inspector = inspect(connection)
            for wanted in (self._sessions, self._messages):
                found = set()
                if inspector.has_table(wanted.name):
                    found = {each["name"] for each in inspector.get_columns(wanted.name)}
                missing = [each.name for each in wanted.c if each.name not in found]
                if missing:
                    return f"table {wanted.name!r} with {', '.join(missing)}"
            return ""

        return self._run(find_missing)

    def count(self) -> int:
        """Return the number of sessions."""
        return int(self._all(select(func.count()).select_from(self._sessions))[0][0])

    def names(self) -> list[str]:
        """Return the names of the sessions, sorted."""
        name = self._sessions.c.session_id
        return [row[0] for row in self._all(select(name).order_by(name))]

    def times(self, names: Sequence[str]) -> dict[str, tuple[object, object]]:
        """Return the times of creation and of the last change by session."""
        columns = self._sessions.c
        found = self._all(select(self._sessions).where(columns.session_id.in_(names)))
        return {name: (created_at, updated_at) for name, created_at, updated_at in found}

    def keys(self, name: str) -> list[int]:
        """Return the keys of a session's items in order."""
        columns = self._messages.c
        found = self._all(
            select(columns.id)
            .where(columns.session_id == name)
            .order_by(columns.created_at, columns.id)
        )
        return [row[0] for row in found]

    def items(self, keys: Sequence[int]) -> list[ItemRow]:
        columns = self._messages.c
        wanted = select(columns.id, columns.message_data, columns.created_at)
        return [ItemRow(*row) for row in self._all(wanted.where(columns.id.in_(list(keys))))]

    def _all(self, statement: Select[Any]) -> Sequence[Any]:
        return self._run(lambda connection: connection.execute(statement).all())

    def _run(self, work: Callable[[Connection], T]) -> T:
        try:
            return self._database.run(work)
        except (OSError, SQLAlchemyError) as error:
            # The driver's text names the server; the URL, which contains a password, is omitted.
            reason = getattr(error, "orig", None) or error
            raise ConfigurationError(
                f"the database cannot be read ({type(reason).__name__}: {reason}): pass the URL "
                "of the SDK's database and make sure that its server is reachable"
            ) from None


def connect(url: str) -> Database | AsyncDatabase:
    """Return a database for a URL; it connects on first use."""
    try:
        parsed = _read_only(make_url(url))
        # Hidden parameters, although they are only ids.
        if parsed.get_dialect().is_async:
            return AsyncDatabase(
                create_async_engine(parsed, pool_pre_ping=True, hide_parameters=True)
            )
        return Database(create_engine(parsed, pool_pre_ping=True, hide_parameters=True))
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"the URL's driver {error.name!r} is not installed: install it, or use an installed "
            "one, such as postgresql+psycopg://"
        ) from None
    except ArgumentError:
        raise ConfigurationError(
            "this is not a database URL of SQLAlchemy: pass the URL of the SDK's database, such as "
            "postgresql+asyncpg://user:password@host/name"
        ) from None


def _read_only(url: URL) -> URL:
    """Return the URL of an SQLite file in read-only mode; require the file to exist."""
    if url.get_backend_name() != "sqlite":
        return url
    url = url.set(drivername="sqlite")
    if url.database and url.database.startswith("file:"):
        return url
    file = Path(url.database or ":memory:")
    if not file.is_file():
        raise ConfigurationError(f"{file} is not a file: pass the SDK's SQLite file")
    return url.set(database=file.resolve().as_uri()).update_query_dict(
        {"mode": "ro", "uri": "true"}
    )
