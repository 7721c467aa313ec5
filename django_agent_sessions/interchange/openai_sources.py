"""The stores of the OpenAI Agents SDK: SQLite files, SQLAlchemy databases, Django databases.

The tables are those of openai-agents 0.24 (``agents/memory/sqlite_session.py`` and
``agents/extensions/memory/sqlalchemy_session.py``) and of openai-django-sessions 0.2, which
creates its models at run time and its tables without migrations.
"""

from __future__ import annotations

import functools
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections
from django.utils import timezone
from django.utils.connection import ConnectionDoesNotExist

from django_agent_sessions.exceptions import ConfigurationError, MissingDependencyError

from .openai_tables import Columns, Database, OpenAITablesSource, UnreadableRowsError
from .sqlite_limits import StatementLimits, error_text, fetch, is_view, view_error

MAIN_BRANCH_ID = "main"
"""The name of the initial branch in ``AdvancedSQLiteSession``."""


class SQLiteDatabase:
    """An SQLite file, opened read-only. Text is returned as bytes, because it may be invalid."""

    expected = "a file of the SDK"
    zone: tzinfo = UTC

    def __init__(self, path: Path) -> None:
        self._path, self.label = path, str(path)
        if not path.is_file():
            raise ConfigurationError(f"{path} is not a file: pass the SDK's SQLite file")
        self._limits = StatementLimits()
        with self._translate_errors():
            # Several threads of the importer may use the connection.
            self._connection = sqlite3.connect(
                f"{path.resolve().as_uri()}?mode=ro",
                uri=True,
                timeout=30,
                check_same_thread=False,
                isolation_level=None,
            )
            self._limits.apply(self._connection)
        self._connection.text_factory = bytes

    def run(
        self, sql: str, parameters: Sequence[Any] = (), *, max_bytes: int | None = None
    ) -> Sequence[Any]:
        """Return the rows of a statement; bytes are parameters of text."""
        marks = ("CAST(? AS TEXT)" if isinstance(each, bytes) else "?" for each in parameters)
        self._limits.begin()
        with self._translate_errors():
            cursor = self._connection.execute(sql % tuple(marks), list(parameters))
            try:
                return fetch(cursor, max_bytes)
            finally:
                cursor.close()

    def columns(self, table: str) -> set[str]:
        """Return the names of a table's columns, in lowercase."""
        if is_view(self.run, table):
            raise view_error(self.label, table)
        found = self.run("SELECT name FROM pragma_table_info(%s)", [table])
        return {name.decode().lower() for (name,) in found}

    def quote(self, name: str) -> str:
        """Return a quoted name."""
        return '"' + name.replace('"', '""').replace("%", "%%") + '"'

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Translate SQLite's errors, whose texts contain no content of rows."""
        try:
            yield
        except sqlite3.Error as error:
            is_damage = isinstance(error, sqlite3.DatabaseError)
            is_damage = is_damage and not isinstance(error, sqlite3.OperationalError)
            raise (UnreadableRowsError if is_damage else ConfigurationError)(
                f"{self._path} cannot be read as an SQLite database ({error_text(error)}): pass "
                "the file of the SDK's db_path. If it is that file, SQLite needs write access to "
                "its directory: copy it, with the files -wal and -shm, to a writable directory"
            ) from None


class DjangoDatabase:
    """A database of the project."""

    def __init__(self, using: str, package: str) -> None:
        self.label = f"the database {using!r}"
        self.expected = f"the alias of the database of {package}"
        try:
            self._connection = connections[using]
        except ConnectionDoesNotExist:
            raise ConfigurationError(f"DATABASES has no alias {using!r}") from None
        # The time zone of the naive times that the driver returns.
        self.zone: tzinfo = self._connection.timezone or timezone.get_default_timezone()

    def run(
        self, sql: str, parameters: Sequence[Any] = (), *, max_bytes: int | None = None
    ) -> Sequence[Any]:
        """Return the rows of a statement; drivers read them at once, so that none are refused."""
        with self._connection.cursor() as cursor:
            cursor.execute(sql, list(parameters))
            return list(cursor.fetchall())

    def columns(self, table: str) -> set[str]:
        """Return the names of a table's columns; a failing statement would abort a transaction."""
        introspection = self._connection.introspection
        with self._connection.cursor() as cursor:
            kinds = {found.name: found.type for found in introspection.get_table_list(cursor)}
            if kinds.get(table) == "v":
                raise view_error(self.label, table)
            if table not in kinds:
                return set()
            return {column.name for column in introspection.get_table_description(cursor, table)}

    def quote(self, name: str) -> str:
        """Return a quoted name."""
        return self._connection.ops.quote_name(name).replace("%", "%%")

    def close(self) -> None:
        """Do nothing: the project's connection stays open."""


class OpenAISQLiteSource(OpenAITablesSource):
    """The sessions in a file of ``SQLiteSession``."""

    kind = "openai-sqlite"
    # The SDK also returns the items of a session without a row of its own.
    _columns = Columns(order="id", has_orphans=True)

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        sessions_table: str = "agent_sessions",
        messages_table: str = "agent_messages",
    ) -> None:
        connect = functools.partial(SQLiteDatabase, Path(path))
        super().__init__(connect, sessions_table, messages_table)

    def _check(self, database: Database) -> None:
        self._check_branches(database)
        super()._check(database)

    def _check_branches(self, database: Database) -> None:
        if "branch_id" in database.columns("message_structure") and database.run(
            "SELECT 1 FROM message_structure WHERE branch_id <> %s LIMIT 1", [MAIN_BRANCH_ID]
        ):
            raise ConfigurationError(
                f"{database.label} contains branches of AdvancedSQLiteSession, which would be "
                "mixed into one conversation: import it as openai-advanced-sqlite"
            )


class OpenAISQLAlchemySource(OpenAITablesSource):
    """The sessions in a database of ``SQLAlchemySession``."""

    kind = "openai-sqlalchemy"

    def __init__(
        self,
        url: str,
        *,
        sessions_table: str = "agent_sessions",
        messages_table: str = "agent_messages",
        zone: tzinfo = UTC,
    ) -> None:
        connect = functools.partial(_connect_sqlalchemy, url, zone)
        super().__init__(connect, sessions_table, messages_table)


class OpenAIDjangoSessionsSource(OpenAITablesSource):
    """The sessions of the package openai-django-sessions, which need not be installed."""

    kind = "openai-django-sessions"
    _columns = Columns(key="id", data="data")

    def __init__(
        self,
        using: str = DEFAULT_DB_ALIAS,
        *,
        sessions_table: str = "agent_sessions",
        messages_table: str = "agent_messages",
    ) -> None:
        self._using = using
        connect = functools.partial(DjangoDatabase, using, self.kind)
        super().__init__(connect, sessions_table, messages_table)

    def _data(self) -> str:
        return as_text("data", self._using)


def as_text(column: str, using: str) -> str:
    """Return an expression of a JSON column's text: PostgreSQL's driver would parse it."""
    return f"CAST({column} AS text)" if connections[using].vendor == "postgresql" else column


def _connect_sqlalchemy(url: str, zone: tzinfo) -> Database:
    """Import SQLAlchemy, which is optional, on first use."""
    try:
        import sqlalchemy as _sqlalchemy  # noqa: F401 - so that the error names the extra
    except ImportError as error:
        raise MissingDependencyError("SQLAlchemy", extra="sqlalchemy") from error
    from .sqlalchemy_database import SQLAlchemyDatabase

    return SQLAlchemyDatabase(url, zone)
