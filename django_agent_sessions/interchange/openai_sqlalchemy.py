"""Reading of the tables of the OpenAI Agents SDK's ``SQLAlchemySession``.

SQLAlchemy is an optional dependency and imported on first use.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, tzinfo
from typing import TYPE_CHECKING

from django_agent_sessions.exceptions import ConfigurationError, MissingDependencyError

from .openai_rows import (
    SESSION_BATCH,
    SharedResource,
    each_item,
    lazy_agent,
    on_main_branch,
    parse_database_time,
)
from .sources import Skipped, SourceMessage, SourceSession

if TYPE_CHECKING:
    from .sqlalchemy_tables import Tables


class OpenAISQLAlchemySource:
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
        self._url = url
        self._sessions_table = sessions_table
        self._messages_table = messages_table
        self._zone = zone
        self._tables = SharedResource(self._open)

    def count(self) -> int:
        """Return the number of sessions."""
        with self._tables.use() as tables:
            return tables.count()

    def sessions(self) -> Iterator[SourceSession | Skipped]:
        """Yield the sessions, ordered by name."""
        with self._tables.use() as tables:
            names = tables.names()
            for start in range(0, len(names), SESSION_BATCH):
                batch = names[start : start + SESSION_BATCH]
                times = tables.times(batch)
                # Sessions that were deleted meanwhile are missing.
                for name in (name for name in batch if name in times):
                    yield self._session(name, *times[name])

    def _session(self, name: str, created_at: object, updated_at: object) -> SourceSession:
        return SourceSession(
            name,
            [lazy_agent(lambda: self._messages(name))],
            created_at=parse_database_time(created_at, self._zone),
            updated_at=parse_database_time(updated_at, self._zone),
        )

    def _messages(self, name: str) -> Iterator[SourceMessage | Skipped]:
        with self._tables.use() as tables:
            yield from each_item(
                on_main_branch(tables.keys(name)),
                tables.items,
                self._messages_table,
                zone=self._zone,
            )

    def _open(self) -> Tables:
        try:
            import sqlalchemy as _sqlalchemy  # noqa: F401 - so that the error names the extra
        except ImportError as error:
            raise MissingDependencyError("SQLAlchemy", extra="sqlalchemy") from error
        from .sqlalchemy_tables import Tables, connect

        database = connect(self._url)
        tables = Tables(database, self._sessions_table, self._messages_table)
        try:
            missing = tables.missing()
        except BaseException:
            tables.close()
            raise
        if missing:
            tables.close()
            raise ConfigurationError(
                f"the database has no {missing}: pass the URL of the SDK's database, and the names "
                "of its tables if they are not the default ones"
            )
        return tables
