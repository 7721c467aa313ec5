"""``DatabaseSession`` of agentic-django, on the app's own kind of connection."""

from __future__ import annotations

from typing import Any

from agentic_django.models import AgentSession
from agentic_django.sessions import get_session
from agents.memory import Session
from asgiref.sync import sync_to_async
from django.contrib.auth import get_user_model
from django.db import connection

from .openai_session import Sessions


class AgenticDjango(Sessions):
    """One session object per conversation, all of one user."""

    name = "agentic-django"
    packages = ("django", "agentic-django", "openai-agents")

    async def start(self) -> None:
        users = get_user_model().objects
        self.owner = (await users.aget_or_create(username="agentic"))[0]

    async def stop(self) -> None:
        # In the thread that has it.
        await sync_to_async(lambda: connection.close())()

    async def session(self, name: str) -> Session:
        made: Session = await sync_to_async(get_session)(name, self.owner)
        return made

    async def delete(self, name: str) -> None:
        # Its own `clear_session` leaves the session there.
        await AgentSession.objects.filter(owner=self.owner, session_key=name).adelete()

    async def fill_sessions(self, count: int) -> None:
        self.lister: Any = await get_user_model().objects.acreate(username="lister")
        rows = [
            AgentSession(session_key=f"session-{number}", owner=self.lister)
            for number in range(count)
        ]
        await AgentSession.objects.abulk_create(rows, batch_size=1_000)

    async def list_sessions(self, count: int) -> int:
        found = AgentSession.objects.filter(owner=self.lister).order_by("-updated_at")
        return len([row async for row in found[:count]])

    def tables(self) -> tuple[str, ...]:
        return ("agentic_django_agentsessionitem",)
