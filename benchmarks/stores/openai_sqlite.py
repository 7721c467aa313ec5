"""The OpenAI Agents SDK's SQLite sessions on a file; they switch the write-ahead log on."""

from __future__ import annotations

from agents import SQLiteSession
from agents.extensions.memory import AdvancedSQLiteSession
from agents.memory import Session

from benchmarks.databases import file

from .openai_session import Sessions


class OpenAISQLite(Sessions):
    """One session object per conversation, all on one file."""

    name = "SQLiteSession"
    packages = ("openai-agents",)

    async def start(self) -> None:
        self.sessions: list[SQLiteSession] = []

    async def stop(self) -> None:
        for session in self.sessions:
            session.close()

    async def session(self, name: str) -> Session:
        session = self.open(name)
        self.sessions.append(session)
        return session

    def open(self, name: str) -> SQLiteSession:
        return SQLiteSession(name, self.path())

    def path(self) -> str:
        return file("openai.sqlite3")


class OpenAIAdvancedSQLite(OpenAISQLite):
    """The one with branches, turns and usage."""

    name = "AdvancedSQLiteSession"

    def open(self, name: str) -> SQLiteSession:
        return AdvancedSQLiteSession(session_id=name, db_path=self.path(), create_tables=True)

    def path(self) -> str:
        return file("openai-advanced.sqlite3")
