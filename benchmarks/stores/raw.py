"""The raw drivers: the leanest table that a conversation fits in, and nothing around it."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Sequence

import psycopg

from benchmarks.databases import postgresql_parameters, sqlite_file
from benchmarks.messages import Message

from .interface import Conversation, Store

_TABLE = """
CREATE TABLE raw_message (
    conversation text NOT NULL,
    position integer NOT NULL,
    message text NOT NULL,
    created_at {time} NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (conversation, position)
)
"""
_INSERT = "INSERT INTO raw_message (conversation, position, message) VALUES ({0}, {0}, {0})"
_SELECT = "SELECT message FROM raw_message WHERE conversation = {0} ORDER BY position"
_LATEST = _SELECT + " DESC LIMIT {0}"
_CONNECTIONS = 8


class RawPostgreSQL(Store):
    """psycopg, which prepares its statements on the server by itself."""

    name = "raw psycopg, text"
    packages = ("psycopg",)

    async def start(self) -> None:
        self.connection = psycopg.connect(**postgresql_parameters(), autocommit=True)
        self.connection.execute(_TABLE.format(time="timestamptz"))
        self.pool: asyncio.Queue[psycopg.AsyncConnection] = asyncio.Queue()
        for _ in range(_CONNECTIONS):
            self.pool.put_nowait(
                await psycopg.AsyncConnection.connect(**postgresql_parameters(), autocommit=True)
            )

    async def stop(self) -> None:
        self.connection.close()
        while not self.pool.empty():
            await self.pool.get_nowait().close()

    async def conversation(self, name: str) -> Conversation:
        return _PostgreSQLConversation(self, name)

    async def concurrent(self, name: str) -> Conversation:
        return _PooledConversation(self, name)

    def tables(self) -> tuple[str, ...]:
        return ("raw_message",)


class _PostgreSQLConversation(Conversation):
    def __init__(self, store: RawPostgreSQL, name: str) -> None:
        self.store = store
        self.connection = store.connection
        self.name = name
        self.next = 0

    async def fill(self, messages: Sequence[Message]) -> None:
        await self.append_many(messages)

    async def append(self, message: Message) -> None:
        self.connection.execute(_INSERT.format("%s"), self.row(message))

    async def append_many(self, messages: Sequence[Message]) -> None:
        rows = [self.row(message) for message in messages]
        with self.connection.transaction(), self.connection.cursor() as cursor:
            cursor.executemany(_INSERT.format("%s"), rows)

    async def restore(self) -> int:
        rows = self.connection.execute(_SELECT.format("%s"), (self.name,)).fetchall()
        return len([json.loads(row[0]) for row in rows])

    async def latest(self, count: int) -> int:
        rows = self.connection.execute(_LATEST.format("%s"), (self.name, count)).fetchall()
        return len([json.loads(row[0]) for row in reversed(rows)])

    def row(self, message: Message) -> tuple[str, int, str]:
        self.next += 1
        return self.name, self.next - 1, json.dumps(message)


class _PooledConversation(_PostgreSQLConversation):
    async def append(self, message: Message) -> None:
        connection = await self.store.pool.get()
        try:
            await connection.execute(_INSERT.format("%s"), self.row(message))
        finally:
            self.store.pool.put_nowait(connection)


class RawSQLite(Store):
    """sqlite3 with the pragmas that the app's connections have."""

    name = "raw sqlite3, WAL"
    packages = ()

    async def start(self) -> None:
        self.connection = sqlite3.connect(sqlite_file("raw.sqlite3"), isolation_level=None)
        for pragma in ("journal_mode=WAL", "secure_delete=ON"):
            self.connection.execute(f"PRAGMA {pragma}")
        self.connection.execute(_TABLE.format(time="text"))

    async def stop(self) -> None:
        self.connection.close()

    async def conversation(self, name: str) -> Conversation:
        return _SQLiteConversation(self.connection, name)


class _SQLiteConversation(Conversation):
    def __init__(self, connection: sqlite3.Connection, name: str) -> None:
        self.connection = connection
        self.name = name
        self.next = 0

    async def fill(self, messages: Sequence[Message]) -> None:
        await self.append_many(messages)

    async def append(self, message: Message) -> None:
        self.connection.execute(_INSERT.format("?"), self.row(message))

    async def append_many(self, messages: Sequence[Message]) -> None:
        rows = [self.row(message) for message in messages]
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.executemany(_INSERT.format("?"), rows)
        self.connection.execute("COMMIT")

    async def restore(self) -> int:
        rows = self.connection.execute(_SELECT.format("?"), (self.name,)).fetchall()
        return len([json.loads(row[0]) for row in rows])

    async def latest(self, count: int) -> int:
        rows = self.connection.execute(_LATEST.format("?"), (self.name, count)).fetchall()
        return len([json.loads(row[0]) for row in reversed(rows)])

    def row(self, message: Message) -> tuple[str, int, str]:
        self.next += 1
        return self.name, self.next - 1, json.dumps(message)
