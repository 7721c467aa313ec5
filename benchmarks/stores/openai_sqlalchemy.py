"""The OpenAI Agents SDK's ``SQLAlchemySession``: asyncpg on PostgreSQL, aiosqlite on SQLite.

The engine and its pool live as long as the process, as the SDK's documentation has it.
"""

from __future__ import annotations

from abc import abstractmethod

from agents.extensions.memory import SQLAlchemySession
from agents.memory import Session
from sqlalchemy.ext.asyncio import create_async_engine

from benchmarks.databases import file, postgresql_url

from .openai_session import Sessions


class _SQLAlchemy(Sessions):
    @property
    @abstractmethod
    def url(self) -> str:
        """Where the database is, as SQLAlchemy has it."""

    async def start(self) -> None:
        self.engine = create_async_engine(self.url)
        # The first use makes the tables.
        await SQLAlchemySession("first", engine=self.engine, create_tables=True).get_items()

    async def stop(self) -> None:
        await self.engine.dispose()

    async def session(self, name: str) -> Session:
        return SQLAlchemySession(name, engine=self.engine)

    def tables(self) -> tuple[str, ...]:
        return ("agent_messages",)

    def path(self) -> str:
        return file("sqlalchemy.sqlite3")


class OnPostgreSQL(_SQLAlchemy):
    """With asyncpg, which prepares its statements on the server by itself."""

    name = "SQLAlchemySession, PostgreSQL"
    packages = ("openai-agents", "sqlalchemy", "asyncpg")

    @property
    def url(self) -> str:
        return postgresql_url()


class OnSQLite(_SQLAlchemy):
    """With aiosqlite; the session itself switches the write-ahead log on."""

    name = "SQLAlchemySession, SQLite"
    packages = ("openai-agents", "sqlalchemy", "aiosqlite")

    @property
    def url(self) -> str:
        return f"sqlite+aiosqlite:///{self.path()}"
