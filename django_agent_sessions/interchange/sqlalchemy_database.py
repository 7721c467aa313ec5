"""A database of SQLAlchemy. Only this module imports SQLAlchemy; import it lazily."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import tzinfo
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    Inspector,
    create_engine,
    event,
    inspect,
    make_url,
    text,
)
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from django_agent_sessions.exceptions import ConfigurationError

from .sqlite_limits import StatementLimits, error_text, fetch, is_view, view_error

T = TypeVar("T")


class _SyncEngine:
    """A database with a synchronous driver."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self.dialect = engine, engine.dialect

    def run(self, work: Callable[[Connection], T]) -> T:
        """Call a function with a connection, then roll back."""
        with self._engine.connect() as connection:
            return work(connection)

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()


class _AsyncEngine:
    """A database with an asynchronous driver, in a separate thread with its own event loop.

    The caller's thread may already run an event loop.
    """

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine, self.dialect = engine, engine.dialect
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


class SQLAlchemyDatabase:
    """A database at a URL of SQLAlchemy; its errors are raised as ``ConfigurationError``."""

    label = "the database"
    expected = "the URL of the SDK's database"

    def __init__(self, url: str, zone: tzinfo) -> None:
        self.zone = zone
        self._engine = _create_engine(url)

    def run(
        self, sql: str, parameters: Sequence[Any] = (), *, max_bytes: int | None = None
    ) -> Sequence[Any]:
        """Return the rows of a statement."""
        # Without types: values are those of the driver, comparisons those of the database.
        values = {f"p{number}": value for number, value in enumerate(parameters)}
        statement = text(sql % tuple(f":{name}" for name in values))
        # The drivers of servers read all rows at once: only the result of a file is limited.
        most = max_bytes if self._engine.dialect.name == "sqlite" else None
        return self._run(lambda connection: fetch(connection.execute(statement, values), most))

    def columns(self, table: str) -> set[str]:
        """Return the names of a table's columns; empty if it does not exist."""

        def find(connection: Connection) -> set[str]:
            inspector = inspect(connection)
            if self._is_view(inspector, table):
                raise view_error(self.label, table)
            if not inspector.has_table(table):
                return set()
            return {column["name"] for column in inspector.get_columns(table)}

        return self._run(find)

    def quote(self, name: str) -> str:
        """Return a quoted name."""
        quoted: str = self._engine.dialect.identifier_preparer.quote(name)
        return quoted.replace(":", "\\:").replace("%", "%%")

    def close(self) -> None:
        """Close the connections."""
        self._engine.close()

    def _is_view(self, inspector: Inspector, table: str) -> bool:
        if self._engine.dialect.name == "sqlite":
            return is_view(self.run, table)
        return table in inspector.get_view_names()

    def _run(self, work: Callable[[Connection], T]) -> T:
        try:
            return self._engine.run(work)
        except (OSError, SQLAlchemyError) as error:
            # The driver's text names the server; the URL, which contains a password, is omitted.
            reason = getattr(error, "orig", None) or error
            raise ConfigurationError(
                f"the database cannot be read ({type(reason).__name__}: {error_text(reason)}): "
                "pass the URL of the SDK's database and make sure that its server is reachable"
            ) from None


def _create_engine(url: str) -> _SyncEngine | _AsyncEngine:
    """Return the engine of a URL; it connects on first use."""
    try:
        parsed = _read_only(make_url(url))
        # Hidden parameters, although they are only ids.
        if parsed.get_dialect().is_async:
            return _AsyncEngine(
                create_async_engine(parsed, pool_pre_ping=True, hide_parameters=True)
            )
        return _SyncEngine(
            _limited(create_engine(parsed, pool_pre_ping=True, hide_parameters=True))
        )
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


def _limited(engine: Engine) -> Engine:
    """Limit the statements on an SQLite file."""
    if engine.dialect.name == "sqlite":
        limits = StatementLimits()

        def prepare(connection: Any, record: object) -> None:
            limits.apply(connection)
            # One invalid text would end a statement with all of its rows.
            connection.text_factory = _text_or_bytes

        event.listen(engine, "connect", prepare)
        event.listen(engine, "before_cursor_execute", lambda *arguments: limits.begin())
    return engine


def _text_or_bytes(data: bytes) -> str | bytes:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


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
