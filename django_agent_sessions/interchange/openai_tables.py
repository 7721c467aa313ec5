"""One reader for the tables of sessions and items that the OpenAI Agents SDK's stores share.

The stores differ in names of columns, in the order of items, and in how a statement is run.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import tzinfo
from typing import Any, NamedTuple, Protocol

from django_agent_sessions.content import dialects
from django_agent_sessions.exceptions import ConfigurationError

from .openai_rows import MOST_BYTES, each_item, parse_database_time
from .sources import Skipped, SourceAgent, SourceMessage, SourceSession

OPENAI_AGENT_ID = "default"
"""The id of the agent of an OpenAI session, the same as in ``DjangoSession``."""

_BATCH = 500
"""Number of sessions per query."""


class UnreadableRowsError(ConfigurationError):
    """A statement met a damaged part of the database."""


class Database(Protocol):
    """A way to run SQL; its errors are raised as ``ConfigurationError``."""

    label: str
    """What it is called in an error."""
    expected: str
    """What to pass instead, in an error."""
    zone: tzinfo
    """The time zone of times without one."""

    def run(
        self, sql: str, parameters: Sequence[Any] = (), *, max_bytes: int | None = None
    ) -> Sequence[Any]:
        """Return the rows of a statement, in which ``%s`` is a parameter and ``%%`` is ``%``.

        An SQLite file raises :exc:`~.sqlite_limits.LargeResultError` for several rows that have
        more bytes than ``max_bytes``.
        """
        ...

    def columns(self, table: str) -> set[str]:
        """Return the names of a table's columns; empty if it does not exist.

        Raises ``ConfigurationError`` for a view, which may never end.
        """
        ...

    def quote(self, name: str) -> str:
        """Return the quoted name of a table, as :meth:`run` takes it."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


class Columns(NamedTuple):
    """What differs between the tables of the stores."""

    key: str = "session_id"
    """The column of a session to which its items refer."""
    name: str = "session_id"
    """The column of a session with its id."""
    data: str = "message_data"
    order: str = "created_at, id"
    """The order of the items of a session."""
    has_orphans: bool = False
    """Whether items without a row of their session are a session, too."""
    more: tuple[str, ...] = ()
    """Further columns of a session, which are passed to ``_session_columns``."""


class OpenAITablesSource:
    """The sessions in two tables of a database."""

    kind = ""
    _columns = Columns()

    def __init__(
        self, connect: Callable[[], Database], sessions_table: str, messages_table: str
    ) -> None:
        self._connect = connect
        self._sessions_table = sessions_table
        self._messages_table = messages_table
        self._opened: Database | None = None
        self._users = 0

    def count(self) -> int:
        """Return the number of sessions."""
        with self._database() as database:
            [[number]] = database.run(f"SELECT COUNT(*) FROM ({self._keys(database)}) AS found")
            return int(number)

    def sessions(self) -> Iterator[SourceSession | Skipped]:
        """Yield the sessions in the order of their keys."""
        with self._database() as database:
            keys = [key for (key,) in database.run(f"{self._keys(database)} ORDER BY 1")]
            for start in range(0, len(keys), _BATCH):
                batch = keys[start : start + _BATCH]
                rows = {key: row for key, *row in self._session_rows(database, batch)}
                for key in batch:
                    if key in rows:
                        yield self._session(database, key, *rows[key])
                    elif self._columns.has_orphans or not _is_text(key):
                        yield self._session(database, key, key)

    def _keys(self, database: Database) -> str:
        def select(column: str, table: str) -> str:
            return f"SELECT {column} FROM {database.quote(table)} WHERE {column} IS NOT NULL"

        keys = select(self._columns.key, self._sessions_table)
        if not self._columns.has_orphans:
            return keys
        return f"{keys} UNION {select('session_id', self._messages_table)}"

    def _session_rows(self, database: Database, keys: Sequence[Any]) -> Sequence[Any]:
        column, table = self._columns.key, database.quote(self._sessions_table)
        read = (column, self._columns.name, "created_at", "updated_at", *self._columns.more)
        return database.run(
            f"SELECT {', '.join(read)} FROM {table} WHERE {column} IN ({_parameters(keys)})", keys
        )

    def _session(
        self,
        database: Database,
        key: Any,
        name: str | bytes,
        created_at: object = None,
        updated_at: object = None,
        *more: object,
    ) -> SourceSession | Skipped:
        try:
            session_id = name.decode() if isinstance(name, bytes) else name
        except UnicodeDecodeError as error:
            where = f"{self._sessions_table} session_id=x'{error.object[:64].hex()}'"
            return Skipped(where, "not text")
        columns, skipped = self._session_columns(database, key, *more)
        return SourceSession(
            session_id,
            [self._agent(database, key)],
            created_at=parse_database_time(created_at, database.zone),
            updated_at=parse_database_time(updated_at, database.zone),
            columns=columns,
            skipped=skipped,
        )

    def _session_columns(
        self, database: Database, key: Any, *more: Any
    ) -> tuple[Mapping[str, Any], Sequence[Skipped]]:
        return {}, ()

    def _agent(self, database: Database, key: Any) -> SourceAgent:
        read = functools.partial(self._messages, key)
        return SourceAgent(OPENAI_AGENT_ID, dialects.OPENAI, _LazyMessages(read))

    def _messages(self, key: Any) -> Iterator[SourceMessage | Skipped]:
        with self._database() as database:
            yield from each_item(
                self._places(database, key),
                functools.partial(self._items, database),
                self._messages_table,
                zone=database.zone,
                shared=self._has_shared_items(database, key),
            )

    def _places(self, database: Database, key: Any) -> Iterator[tuple[int, int]]:
        """Yield the key and the branch of each item."""
        found = database.run(
            f"SELECT id FROM {database.quote(self._messages_table)} WHERE session_id = %s "
            f"ORDER BY {self._columns.order}",
            [key],
        )
        return ((item, 0) for (item,) in found)

    def _has_shared_items(self, database: Database, key: Any) -> bool:
        """Return whether an item may be on several branches."""
        return False

    def _data(self) -> str:
        """Return the expression of an item's JSON."""
        return self._columns.data

    def _items(self, database: Database, keys: Sequence[int]) -> Sequence[Sequence[Any]]:
        """Read the key, the JSON and the time of creation of items."""
        try:
            return database.run(
                f"SELECT id, {self._data()}, created_at "
                f"FROM {database.quote(self._messages_table)} WHERE id IN ({_parameters(keys)})",
                keys,
                max_bytes=MOST_BYTES,
            )
        except UnreadableRowsError:
            if len(keys) == 1:
                return [(keys[0], None, None)]
            # Read the rows one by one, to skip only the damaged ones.
            return [row for key in keys for row in self._items(database, [key])]

    @contextmanager
    def _database(self) -> Iterator[Database]:
        """Context manager that opens the database, and closes it after the last of nested uses."""
        if self._opened is None:
            self._opened = self._open()
        database = self._opened
        self._users += 1
        try:
            yield database
        finally:
            self._users -= 1
            if not self._users:
                self._opened = None
                database.close()

    def _open(self) -> Database:
        database = self._connect()
        try:
            self._check(database)
        except BaseException:
            database.close()
            raise
        return database

    def _check(self, database: Database) -> None:
        """Require the tables."""
        wanted = {
            self._sessions_table: {
                self._columns.key,
                self._columns.name,
                "created_at",
                "updated_at",
                *self._columns.more,
            },
            self._messages_table: {"id", "session_id", self._columns.data, "created_at"},
        }
        for table, columns in wanted.items():
            missing = sorted(columns - database.columns(table))
            if missing:
                raise ConfigurationError(
                    f"{database.label} has no table {table!r} with {', '.join(missing)}: pass "
                    f"{database.expected}, and the names of its tables if they are not the default "
                    "ones"
                )


class _LazyMessages:
    """Messages that are read on each iteration."""

    def __init__(self, read: Callable[[], Iterator[SourceMessage | Skipped]]) -> None:
        self._read = read

    def __iter__(self) -> Iterator[SourceMessage | Skipped]:
        return self._read()


def _is_text(key: Any) -> bool:
    """Return whether a key is text, by which SQLite finds its row; others are reported."""
    try:
        return not isinstance(key, bytes) or key.decode() is not None
    except UnicodeDecodeError:
        return False


def _parameters(values: Sequence[object]) -> str:
    return ", ".join(["%s"] * len(values))
