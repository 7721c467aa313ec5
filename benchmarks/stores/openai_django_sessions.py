"""``DjangoSession`` of openai-django-sessions, on the app's own kind of connection."""

from __future__ import annotations

from typing import Any

from agents.memory import Session
from asgiref.sync import sync_to_async
from django.db import connection
from openai_django_sessions import DjangoSession
from openai_django_sessions.models import get_models

from .openai_session import Sessions

# The usual ones are those of SQLAlchemySession, too.
_TABLES = {"sessions_table": "ods_sessions", "messages_table": "ods_messages"}


class OpenAIDjangoSessions(Sessions):
    """One session object per conversation."""

    name = "openai-django-sessions"
    packages = ("django", "openai-django-sessions", "openai-agents")

    async def start(self) -> None:
        self.model: Any = get_models(**_TABLES)[0]
        await sync_to_async(self._make_tables)()

    async def stop(self) -> None:
        # In the thread that has it.
        await sync_to_async(lambda: connection.close())()

    async def session(self, name: str) -> Session:
        made: Session = DjangoSession(name, **_TABLES)
        return made

    async def fill_sessions(self, count: int) -> None:
        rows = [self.model(session_id=f"session-{number}") for number in range(count)]
        await self.model.objects.abulk_create(rows, batch_size=1_000)

    async def list_sessions(self, count: int) -> int:
        return len([row async for row in self.model.objects.order_by("-updated_at")[:count]])

    def tables(self) -> tuple[str, ...]:
        return (_TABLES["messages_table"],)

    def _make_tables(self) -> None:
        if _TABLES["sessions_table"] not in connection.introspection.table_names():
            DjangoSession("first", create_tables=True, **_TABLES)
