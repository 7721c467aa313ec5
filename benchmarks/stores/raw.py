"""The raw drivers: the leanest tables that conversations fit in, and nothing around them."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Sequence, Sized

import psycopg

from benchmarks.databases import file, postgresql_parameters
from benchmarks.messages import Message

from .interface import Conversation, Store

_TABLES = """
CREATE TABLE IF NOT EXISTS raw_message (
    conversation text NOT NULL,
    position integer NOT NULL,
    message {payload} NOT NULL,
    created_at {time} NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (conversation, position)
);
CREATE TABLE IF NOT EXISTS raw_conversation (
    id text PRIMARY KEY,
    owner integer NOT NULL,
    active_at integer NOT NULL
);
CREATE INDEX IF NOT EXISTS raw_conversation_of_owner ON raw_conversation (owner, active_at);
"""
_INSERT = "INSERT INTO raw_message (conversation, position, message) VALUES ({0}, {0}, {0})"
_SELECT = "SELECT message FROM raw_message WHERE conversation = {0} ORDER BY position"
_LATEST = _SELECT + " DESC LIMIT {0}"
_DELETE = "DELETE FROM raw_message WHERE conversation = {0}"
_FILL = "INSERT INTO raw_conversation (id, owner, active_at) VALUES ({0}, {0}, {0})"
_LIST = "SELECT id FROM raw_conversation WHERE owner = {0} ORDER BY active_at DESC LIMIT {0}"
_OWNER = 1
_CONNECTIONS = 8


class RawPostgreSQL(Store):
    """psycopg, which prepares its statements on the server by itself."""

    name = "raw psycopg, text"
    packages = ("psycopg",)

    async def start(self) -> None:
        self.connection = psycopg.connect(**postgresql_parameters(), autocommit=True)
        self.connection.execute(_TABLES.format(payload="text", time="timestamptz"))
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

    async def restore(self, name: str) -> Sized:
        rows = self.connection.execute(_SELECT.format("%s"), (name,)).fetchall()
        return [json.loads(row[0]) for row in rows]

    async def delete(self, name: str) -> None:
        self.connection.execute(_DELETE.format("%s"), (name,))

    async def fill_sessions(self, count: int) -> None:
        rows = [(f"session-{number}", _OWNER, number) for number in range(count)]
        with self.connection.cursor() as cursor:
            cursor.executemany(_FILL.format("%s"), rows)

    async def list_sessions(self, count: int) -> int:
        return len(self.connection.execute(_LIST.format("%s"), (_OWNER, count)).fetchall())

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
        self.connection = sqlite3.connect(
            self.path(), isolation_level=None, check_same_thread=False
        )
        for pragma in ("journal_mode=WAL", "secure_delete=ON"):
            self.connection.execute(f"PRAGMA {pragma}")
        self.connection.executescript(_TABLES.format(payload="text", time="text"))

    async def stop(self) -> None:
        self.connection.close()

    async def conversation(self, name: str) -> Conversation:
        return _SQLiteConversation(self.connection, name)

    async def restore(self, name: str) -> Sized:
        rows = self.connection.execute(_SELECT.format("?"), (name,)).fetchall()
        return [json.loads(row[0]) for row in rows]

    async def delete(self, name: str) -> None:
        self.connection.execute(_DELETE.format("?"), (name,))

    async def fill_sessions(self, count: int) -> None:
        rows = [(f"session-{number}", _OWNER, number) for number in range(count)]
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.executemany(_FILL.format("?"), rows)
        self.connection.execute("COMMIT")

    async def list_sessions(self, count: int) -> int:
        return len(self.connection.execute(_LIST.format("?"), (_OWNER, count)).fetchall())

    def path(self) -> str:
        return file("raw.sqlite3")


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

    async def latest(self, count: int) -> int:
        rows = self.connection.execute(_LATEST.format("?"), (self.name, count)).fetchall()
        return len([json.loads(row[0]) for row in reversed(rows)])

    def row(self, message: Message) -> tuple[str, int, str]:
        self.next += 1
        return self.name, self.next - 1, json.dumps(message)
