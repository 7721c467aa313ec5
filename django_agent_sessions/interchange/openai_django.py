"""Reading of the tables of the package openai-django-sessions 0.2, which need not be installed.

It creates its models at run time and its tables without migrations, so that they are read with
SQL: ``agent_sessions(id, session_id, created_at, updated_at)`` and ``agent_messages(id,
session_id, data, created_at)``, whose ``session_id`` refers to ``agent_sessions.id``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import tzinfo
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils import timezone
from django.utils.connection import ConnectionDoesNotExist

from django_agent_sessions.exceptions import ConfigurationError

from .openai_rows import (
    SESSION_BATCH,
    ItemRow,
    each_item,
    lazy_agent,
    on_main_branch,
    parse_database_time,
)
from .sources import Skipped, SourceMessage, SourceSession


class OpenAIDjangoSessionsSource:
    """The sessions of the package openai-django-sessions."""

    kind = "openai-django-sessions"

    def __init__(
        self,
        using: str = DEFAULT_DB_ALIAS,
        *,
        sessions_table: str = "agent_sessions",
        messages_table: str = "agent_messages",
    ) -> None:
        self._using = using
        self._sessions_table = sessions_table
        self._messages_table = messages_table

    def count(self) -> int:
        """Return the number of sessions."""
        sessions = self._quote(self._connection(), self._sessions_table)
        return int(self._rows(f"SELECT COUNT(*) FROM {sessions}")[0][0])

    def sessions(self) -> Iterator[SourceSession | Skipped]:
        """Yield the sessions in the order of creation."""
        sessions = self._quote(self._connection(), self._sessions_table)
        keys = [key for (key,) in self._rows(f"SELECT id FROM {sessions} ORDER BY id")]
        for start in range(0, len(keys), SESSION_BATCH):
            batch = keys[start : start + SESSION_BATCH]
            for key, name, created_at, updated_at in self._rows(
                f"SELECT id, session_id, created_at, updated_at FROM {sessions} "
                f"WHERE id IN ({_placeholders(batch)}) ORDER BY id",
                batch,
            ):
                yield self._session(key, name, created_at, updated_at)

    def _session(
        self, key: int, name: str, created_at: object, updated_at: object
    ) -> SourceSession:
        return SourceSession(
            name,
            [lazy_agent(lambda: self._messages(key))],
            created_at=parse_database_time(created_at, self._zone()),
            updated_at=parse_database_time(updated_at, self._zone()),
        )

    def _messages(self, session: int) -> Iterator[SourceMessage | Skipped]:
        connection = connections[self._using]
        messages = self._quote(connection, self._messages_table)
        # As text, because the driver parses PostgreSQL's json type and changes numbers.
        data = "CAST(data AS text)" if connection.vendor == "postgresql" else "data"

        def fetch(batch: Sequence[int]) -> list[ItemRow]:
            rows = self._rows(
                f"SELECT id, {data}, created_at FROM {messages} "
                f"WHERE id IN ({_placeholders(batch)})",
                batch,
            )
            return [ItemRow(*row) for row in rows]

        keys = self._rows(
            f"SELECT id FROM {messages} WHERE session_id = %s ORDER BY created_at, id",
            [session],
        )
        yield from each_item(
            on_main_branch(key for (key,) in keys), fetch, self._messages_table, zone=self._zone()
        )

    def _connection(self) -> BaseDatabaseWrapper:
        """Require the tables to exist, because a failing statement would abort a transaction."""
        try:
            connection = connections[self._using]
        except ConnectionDoesNotExist:
            raise ConfigurationError(f"DATABASES has no alias {self._using!r}") from None
        wanted = {
            self._sessions_table: {"id", "session_id", "created_at", "updated_at"},
            self._messages_table: {"id", "session_id", "data", "created_at"},
        }
        with connection.cursor() as cursor:
            tables = set(connection.introspection.table_names(cursor, include_views=True))
            for table, columns in wanted.items():
                found: set[str] = set()
                if table in tables:
                    described = connection.introspection.get_table_description(cursor, table)
                    found = {column.name for column in described}
                missing = sorted(columns - found)
                if missing:
                    raise ConfigurationError(
                        f"the database {self._using!r} has no table {table!r} with "
                        f"{', '.join(missing)}: pass the alias of the database of "
                        "openai-django-sessions, and the names of its tables if they are not the "
                        "default ones"
                    )
        return connection

    def _rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        with connections[self._using].cursor() as cursor:
            cursor.execute(statement, list(parameters))
            return list(cursor.fetchall())

    def _quote(self, connection: BaseDatabaseWrapper, table: str) -> str:
        return connection.ops.quote_name(table)

    def _zone(self) -> tzinfo:
        # The time zone of the naive times that the driver returns.
        return connections[self._using].timezone or timezone.get_default_timezone()


def _placeholders(values: Sequence[object]) -> str:
    return ",".join(["%s"] * len(values))
