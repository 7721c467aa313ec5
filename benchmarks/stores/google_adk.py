"""Google ADK's ``DatabaseSessionService`` on asyncpg, with the engine and pool it makes itself."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from datetime import UTC, datetime, timedelta
from typing import Any

from google.adk.events import Event
from google.adk.sessions import DatabaseSessionService
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.schemas.v1 import StorageEvent, StorageSession
from google.genai import types
from sqlalchemy import insert

from benchmarks.databases import postgresql_url
from benchmarks.messages import Message

from .interface import Conversation, Store

_APP, _USER, _LISTER = "benchmark", "somebody", "lister"


class GoogleADK(Store):
    """One session object per conversation; a message is an event."""

    name = "ADK DatabaseSessionService"
    packages = ("google-adk", "sqlalchemy", "asyncpg")

    async def start(self) -> None:
        self.service: Any = DatabaseSessionService(postgresql_url())
        await self.service.prepare_tables()

    async def stop(self) -> None:
        await self.service.close()

    async def conversation(self, name: str) -> Conversation:
        session = await self.service.create_session(app_name=_APP, user_id=_USER, session_id=name)
        return _Conversation(self.service, session)

    async def restore(self, name: str) -> Sized:
        found = await self.service.get_session(app_name=_APP, user_id=_USER, session_id=name)
        events: list[Event] = found.events
        return events

    async def delete(self, name: str) -> None:
        await self.service.delete_session(app_name=_APP, user_id=_USER, session_id=name)

    async def fill_sessions(self, count: int) -> None:
        await self.service.create_session(app_name=_APP, user_id=_LISTER)
        last = datetime.now(UTC).replace(tzinfo=None) - timedelta(days=1)
        rows = [
            {
                "app_name": _APP,
                "user_id": _LISTER,
                "id": f"session-{number}",
                "state": {},
                "create_time": last,
                "update_time": last - timedelta(seconds=count - number),
            }
            for number in range(count - 1)
        ]
        await self.insert(StorageSession, rows)

    async def list_sessions(self, count: int) -> int:
        # It has no limit.
        found = await self.service.list_sessions(app_name=_APP, user_id=_LISTER)
        return len(found.sessions[-count:])

    async def insert(self, model: Any, rows: Sequence[dict[str, Any]]) -> None:
        async with self.service.db_engine.begin() as connection:
            for start in range(0, len(rows), 1_000):
                await connection.execute(insert(model), rows[start : start + 1_000])

    def tables(self) -> tuple[str, ...]:
        return ("events",)


class _Conversation(Conversation):
    def __init__(self, service: Any, session: Any) -> None:
        self.service = service
        self.session = session

    async def fill(self, messages: Sequence[Message]) -> None:
        # As its append does it, but all at once; then the session is read again.
        began = datetime.now(UTC).timestamp() - len(messages)
        rows = []
        for number, message in enumerate(messages):
            event = self.event(message)
            event.timestamp = began + number
            row = StorageEvent.from_event(self.session, event)
            rows.append({c.name: getattr(row, c.key) for c in StorageEvent.__table__.columns})
        async with self.service.db_engine.begin() as connection:
            for start in range(0, len(rows), 1_000):
                await connection.execute(
                    insert(StorageEvent.__table__), rows[start : start + 1_000]
                )
        self.session = await self.service.get_session(
            app_name=_APP, user_id=_USER, session_id=self.session.id
        )

    async def append(self, message: Message) -> None:
        await self.service.append_event(self.session, self.event(message))

    async def append_many(self, messages: Sequence[Message]) -> None:
        # It takes one at a time.
        for message in messages:
            await self.append(message)

    async def latest(self, count: int) -> int:
        found = await self.service.get_session(
            app_name=_APP,
            user_id=_USER,
            session_id=self.session.id,
            config=GetSessionConfig(num_recent_events=count),
        )
        return len(found.events)

    def event(self, message: Message) -> Event:
        role = "user" if message["role"] == "user" else "model"
        content = types.Content(role=role, parts=[types.Part(text=message["content"])])
        return Event(author=message["role"], invocation_id="benchmark", content=content)
