"""The OpenAI Agents SDK's ``SQLAlchemySession``: asyncpg on PostgreSQL, aiosqlite on SQLite.

The engine and its pool live as long as the process, as the SDK's documentation has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from agents.extensions.memory import SQLAlchemySession
from sqlalchemy.ext.asyncio import create_async_engine

from benchmarks.databases import postgresql_url, sqlite_file
from benchmarks.messages import Message

from .interface import Conversation, Store


class _SQLAlchemy(Store):
    url: str

    async def start(self) -> None:
        self.engine = create_async_engine(self.url)
        # The first use makes the tables.
        await self.session("first", create_tables=True).get_items()

    async def stop(self) -> None:
        await self.engine.dispose()

    async def conversation(self, name: str) -> Conversation:
        return _Conversation(self, name)

    def session(self, name: str, *, create_tables: bool = False) -> SQLAlchemySession:
        return SQLAlchemySession(name, engine=self.engine, create_tables=create_tables)

    def tables(self) -> tuple[str, ...]:
        return ("agent_messages",)


class OnPostgreSQL(_SQLAlchemy):
    """With asyncpg, which prepares its statements on the server by itself."""

    name = "SQLAlchemySession, PostgreSQL"
    packages = ("openai-agents", "sqlalchemy", "asyncpg")

    @property
    def url(self) -> str:  # type: ignore[override]
        return postgresql_url()


class OnSQLite(_SQLAlchemy):
    """With aiosqlite; the session itself switches the write-ahead log on."""

    name = "SQLAlchemySession, SQLite"
    packages = ("openai-agents", "sqlalchemy", "aiosqlite")

    @property
    def url(self) -> str:  # type: ignore[override]
        return f"sqlite+aiosqlite:///{sqlite_file('sqlalchemy.sqlite3')}"


class _Conversation(Conversation):
    def __init__(self, store: _SQLAlchemy, name: str) -> None:
        self.store = store
        self.name = name
        self.session = store.session(name)

    async def fill(self, messages: Sequence[Message]) -> None:
        await self.append_many(messages)

    async def append(self, message: Message) -> None:
        await self.session.add_items([cast("Any", message)])

    async def append_many(self, messages: Sequence[Message]) -> None:
        await self.session.add_items(cast("Any", messages))

    async def restore(self) -> int:
        return len(await self.store.session(self.name).get_items())

    async def latest(self, count: int) -> int:
        return len(await self.session.get_items(limit=count))
