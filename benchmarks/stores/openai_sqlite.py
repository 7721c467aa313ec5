"""The OpenAI Agents SDK's ``SQLiteSession`` on a file; it switches the write-ahead log on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from agents import SQLiteSession

from benchmarks.databases import sqlite_file
from benchmarks.messages import Message

from .interface import Conversation, Store


class OpenAISQLite(Store):
    """One session object per conversation, all on one file."""

    name = "SQLiteSession"
    packages = ("openai-agents",)

    async def start(self) -> None:
        self.sessions: list[SQLiteSession] = []

    async def stop(self) -> None:
        for session in self.sessions:
            session.close()

    async def conversation(self, name: str) -> Conversation:
        return _Conversation(self.session(name))

    def session(self, name: str) -> SQLiteSession:
        session = SQLiteSession(name, sqlite_file("openai.sqlite3"))
        self.sessions.append(session)
        return session


class _Conversation(Conversation):
    def __init__(self, session: SQLiteSession) -> None:
        self.session = session

    async def fill(self, messages: Sequence[Message]) -> None:
        await self.append_many(messages)

    async def append(self, message: Message) -> None:
        await self.session.add_items([cast("Any", message)])

    async def append_many(self, messages: Sequence[Message]) -> None:
        await self.session.add_items(cast("Any", messages))

    async def restore(self) -> int:
        return len(await self.session.get_items())

    async def latest(self, count: int) -> int:
        return len(await self.session.get_items(limit=count))
