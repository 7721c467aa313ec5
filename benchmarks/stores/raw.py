"""The raw drivers: the leanest tables that conversations fit in, and nothing around them."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Sequence, Sized
from typing import Any, ClassVar, cast

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


class _Raw(Store):
    """One connection on which statements run; ``mark`` is the driver's placeholder."""

    mark: ClassVar[str]
    connection: Any

    async def stop(self) -> None:
        self.connection.close()

    async def conversation(self, name: str) -> Conversation:
        return _Conversation(self, name)

    async def restore(self, name: str) -> Sized:
        rows = self.connection.execute(_SELECT.format(self.mark), (name,)).fetchall()
        return [json.loads(row[0]) for row in rows]

    async def delete(self, name: str) -> None:
        self.connection.execute(_DELETE.format(self.mark), (name,))

    async def fill_sessions(self, count: int) -> None:
        rows = [(f"session-{number}", _OWNER, number) for number in range(count)]
        self.insert(_FILL.format(self.mark), rows)

    async def list_sessions(self, count: int) -> int:
        return len(self.connection.execute(_LIST.format(self.mark), (_OWNER, count)).fetchall())

    def insert(self, statement: str, rows: Sequence[Any]) -> None:
        """Insert rows in one transaction."""
        raise NotImplementedError


class _Conversation(Conversation):
    def __init__(self, store: _Raw, name: str) -> None:
        self.store = store
        self.connection = store.connection
        self.name = name
        self.next = 0
        self.statement = _INSERT.format(store.mark)

    async def fill(self, messages: Sequence[Message]) -> None:
        await self.append_many(messages)

    async def append(self, message: Message) -> None:
        self.connection.execute(self.statement, self.row(message))

    async def append_many(self, messages: Sequence[Message]) -> None:
        self.store.insert(self.statement, [self.row(message) for message in messages])

    async def latest(self, count: int) -> int:
        latest = _LATEST.format(self.store.mark)
        rows = self.connection.execute(latest, (self.name, count)).fetchall()
        return len([json.loads(row[0]) for row in reversed(rows)])

    def row(self, message: Message) -> tuple[str, int, str]:
        self.next += 1
        return self.name, self.next - 1, json.dumps(message)


class RawPostgreSQL(_Raw):
    """psycopg, which prepares its statements on the server by itself."""

    name = "raw psycopg, text"
    packages = ("psycopg",)
    mark = "%s"

    async def start(self) -> None:
        self.connection = psycopg.connect(**postgresql_parameters(), autocommit=True)
        self.connection.execute(_TABLES.format(payload="text", time="timestamptz"))
        self.pool: asyncio.Queue[psycopg.AsyncConnection] = asyncio.Queue()
        for _ in range(_CONNECTIONS):
            self.pool.put_nowait(
                await psycopg.AsyncConnection.connect(**postgresql_parameters(), autocommit=True)
            )

    async def stop(self) -> None:
        await super().stop()
        while not self.pool.empty():
            await self.pool.get_nowait().close()

    async def concurrent(self, name: str) -> Conversation:
        return _PooledConversation(self, name)

    def insert(self, statement: str, rows: Sequence[Any]) -> None:
        with self.connection.transaction(), self.connection.cursor() as cursor:
            cursor.executemany(statement, rows)

    def tables(self) -> tuple[str, ...]:
        return ("raw_message",)


class _PooledConversation(_Conversation):
    store: RawPostgreSQL

    async def append(self, message: Message) -> None:
        connection = await self.store.pool.get()
        try:
            await connection.execute(cast("Any", self.statement), self.row(message))
        finally:
            self.store.pool.put_nowait(connection)


class RawSQLite(_Raw):
    """sqlite3 with the pragmas that the app's connections have."""

    name = "raw sqlite3, WAL"
    packages = ()
    mark = "?"

    async def start(self) -> None:
        self.connection = sqlite3.connect(
            self.path(), isolation_level=None, check_same_thread=False
        )
        for pragma in ("journal_mode=WAL", "secure_delete=ON"):
            self.connection.execute(f"PRAGMA {pragma}")
        self.connection.executescript(_TABLES.format(payload="text", time="text"))

    def insert(self, statement: str, rows: Sequence[Any]) -> None:
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.executemany(statement, rows)
        self.connection.execute("COMMIT")

    def path(self) -> str:
        return file("raw.sqlite3")
