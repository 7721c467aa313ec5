"""Reading of the SQLite files of the OpenAI Agents SDK's ``SQLiteSession``.

The tables are those of openai-agents 0.24, ``agents/memory/sqlite_session.py``. Files are opened
read-only.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from django_agent_sessions.exceptions import ConfigurationError

from .openai_rows import (
    SESSION_BATCH,
    ItemRow,
    SharedResource,
    each_item,
    lazy_agent,
    on_main_branch,
    parse_database_time,
)
from .sources import Skipped, SourceAgent, SourceMessage, SourceSession

MAIN_BRANCH_ID = "main"
"""The name of the initial branch in ``AdvancedSQLiteSession``."""


class OpenAISQLiteSource:
    """The sessions in a file of ``SQLiteSession``."""

    kind = "openai-sqlite"

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        sessions_table: str = "agent_sessions",
        messages_table: str = "agent_messages",
    ) -> None:
        self._path = Path(path)
        self._sessions_table = sessions_table
        self._messages_table = messages_table
        self._file = SharedResource(self._open)
        # Quoted, because the caller chooses the names of the tables.
        sessions, messages = quote_name(sessions_table), quote_name(messages_table)
        # The SDK also returns the items of a session without a row of its own.
        self._names = (
            f"SELECT session_id FROM {sessions} WHERE session_id IS NOT NULL "
            f"UNION SELECT session_id FROM {messages} WHERE session_id IS NOT NULL"
        )
        self._times = (
            f"SELECT session_id, created_at, updated_at FROM {sessions} WHERE session_id IN ({{}})"
        )
        self._keys = f"SELECT id FROM {messages} WHERE session_id = CAST(? AS TEXT) ORDER BY id"
        self._rows = f"SELECT id, message_data, created_at FROM {messages} WHERE id IN ({{}})"

    def count(self) -> int:
        """Return the number of sessions."""
        with self._file.use() as connection, self._translate_errors():
            found: int = connection.execute(f"SELECT COUNT(*) FROM ({self._names})").fetchone()[0]
            return found

    def sessions(self) -> Iterator[SourceSession | Skipped]:
        """Yield the sessions, ordered by name."""
        with self._file.use() as connection, self._translate_errors():
            names = [name for (name,) in connection.execute(f"{self._names} ORDER BY 1")]
            for start in range(0, len(names), SESSION_BATCH):
                batch = names[start : start + SESSION_BATCH]
                times = {
                    name: (parse_database_time(created_at), parse_database_time(updated_at))
                    for name, created_at, updated_at in connection.execute(
                        self._times.format(_placeholders(batch, "CAST(? AS TEXT)")), batch
                    )
                }
                for name in batch:
                    yield self._session(connection, name, *times.get(name, (None, None)))

    def _session(
        self, connection: sqlite3.Connection, name: bytes, created_at: Any, updated_at: Any
    ) -> SourceSession | Skipped:
        try:
            session_id = name.decode()
        except UnicodeDecodeError:
            return Skipped(f"{self._sessions_table} session_id=x'{name[:64].hex()}'", "not text")
        columns, skipped = self._session_columns(connection, name)
        return SourceSession(
            session_id,
            [self._agent(connection, name)],
            created_at=created_at,
            updated_at=updated_at,
            columns=columns,
            skipped=skipped,
        )

    def _session_columns(
        self, connection: sqlite3.Connection, name: bytes
    ) -> tuple[Mapping[str, Any], Sequence[Skipped]]:
        return {}, ()

    def _agent(self, connection: sqlite3.Connection, name: bytes) -> SourceAgent:
        return lazy_agent(lambda: self._messages(name))

    def _has_shared_items(self, connection: sqlite3.Connection, name: bytes) -> bool:
        """Return whether an item may be on several branches."""
        return False

    def _messages(self, name: bytes) -> Iterator[SourceMessage | Skipped]:
        with self._file.use() as connection, self._translate_errors():

            def fetch(batch: Sequence[int]) -> list[ItemRow]:
                try:
                    return self._fetch(connection, batch)
                except sqlite3.OperationalError:
                    raise
                except sqlite3.DatabaseError:
                    # A damaged page: read the rows one by one, to skip only those on it.
                    return [self._fetch_one(connection, key) for key in batch]

            yield from each_item(
                self._places(connection, name),
                fetch,
                self._messages_table,
                shared=self._has_shared_items(connection, name),
            )

    def _fetch(self, connection: sqlite3.Connection, keys: Sequence[int]) -> list[ItemRow]:
        statement = self._rows.format(_placeholders(keys))
        return [ItemRow(*row) for row in connection.execute(statement, keys)]

    def _fetch_one(self, connection: sqlite3.Connection, key: int) -> ItemRow:
        try:
            [row] = self._fetch(connection, [key])
        except (sqlite3.DatabaseError, ValueError):
            return ItemRow(key, None, None)
        return row

    def _places(self, connection: sqlite3.Connection, name: bytes) -> Iterator[tuple[int, int]]:
        return on_main_branch(key for (key,) in connection.execute(self._keys, (name,)))

    def _open(self) -> sqlite3.Connection:
        if not self._path.is_file():
            raise ConfigurationError(f"{self._path} is not a file: pass the SDK's SQLite file")
        with self._translate_errors():
            # Several threads of the importer may use the connection.
            connection = sqlite3.connect(
                f"{self._path.resolve().as_uri()}?mode=ro",
                uri=True,
                timeout=30,
                check_same_thread=False,
                isolation_level=None,
            )
            try:
                # As bytes, because invalid UTF-8 would raise for a whole batch.
                connection.text_factory = bytes
                self._check(connection)
            except BaseException:
                connection.close()
                raise
        return connection

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Translate SQLite's errors, whose texts contain no content of rows."""
        try:
            yield
        except sqlite3.Error as error:
            raise ConfigurationError(
                f"{self._path} cannot be read as an SQLite database ({error}): pass the file of "
                "the SDK's db_path. If it is that file, SQLite needs write access to its "
                "directory: copy it, with the files -wal and -shm, to a writable directory"
            ) from None

    def _check(self, connection: sqlite3.Connection) -> None:
        self._require(connection, self._sessions_table, "session_id", "created_at", "updated_at")
        self._require(
            connection, self._messages_table, "id", "session_id", "message_data", "created_at"
        )
        if columns_of(connection, "message_structure") and self._has_branches(connection):
            raise ConfigurationError(
                f"{self._path} contains branches of AdvancedSQLiteSession, which would be mixed "
                "into one conversation: import it as openai-advanced-sqlite"
            )

    def _require(self, connection: sqlite3.Connection, table: str, *columns: str) -> None:
        missing = sorted(set(columns) - columns_of(connection, table))
        if missing:
            raise ConfigurationError(
                f"{self._path} has no table {table!r} with {', '.join(missing)}: pass a file of "
                f"the SDK, and the names of its tables if they are not the default ones"
            )

    def _has_branches(self, connection: sqlite3.Connection) -> bool:
        found = connection.execute(
            "SELECT 1 FROM message_structure WHERE branch_id <> ? LIMIT 1", (MAIN_BRANCH_ID,)
        )
        with closing(found):
            return found.fetchone() is not None


def quote_name(name: str) -> str:
    """Return a quoted table name."""
    return '"' + name.replace('"', '""') + '"'


def _placeholders(values: Sequence[object], placeholder: str = "?") -> str:
    return ",".join([placeholder] * len(values))


def columns_of(connection: sqlite3.Connection, table: str) -> set[str]:
    """Return the names of a table's columns; empty if it does not exist."""
    found = connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
    return {name.decode().lower() for (name,) in found}
