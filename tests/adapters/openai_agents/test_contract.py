"""The contract kit, run on the session of the OpenAI Agents SDK."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from django_agent_sessions import testing
from django_agent_sessions.adapters.openai_agents import DjangoSession
from django_agent_sessions.values.owners import NOBODY


class SessionDriver:
    """Its sync methods run a loop of their own, as a program's ``asyncio.run`` does."""

    def __init__(self, owner: Any, namespace: str) -> None:
        self.owner = owner
        self.namespace = namespace

    def payload(self, text: str, data: Any = None) -> Any:
        return {"role": "user", "content": text, "data": data}

    def texts(self, payloads: Sequence[Any]) -> list[str]:
        return [payload["content"] for payload in payloads]

    def append(self, session_id: str, payloads: Sequence[Any]) -> None:
        asyncio.run(self.aappend(session_id, payloads))

    def read(self, session_id: str) -> list[Any]:
        return asyncio.run(self.aread(session_id))

    async def aappend(self, session_id: str, payloads: Sequence[Any]) -> None:
        await self.session(session_id).add_items(list(payloads))

    async def aread(self, session_id: str) -> list[Any]:
        return list(await self.session(session_id).get_items())

    def pop(self, session_id: str) -> Any | None:
        return asyncio.run(self.session(session_id).pop_item())

    def clear(self, session_id: str) -> None:
        asyncio.run(self.session(session_id).clear_session())

    def redact(self, session_id: str, position: int, payload: Any) -> None:
        asyncio.run(self.session(session_id).redact_item(position, payload))

    def session(self, session_id: str) -> DjangoSession:
        return DjangoSession(session_id, owner=self.owner, namespace=self.namespace)


class LivingSessionDriver(SessionDriver):
    """Uses one object per session, so that it may know what is in the database."""

    def __init__(self, owner: Any, namespace: str) -> None:
        super().__init__(owner, namespace)
        self.sessions: dict[str, DjangoSession] = {}

    def session(self, session_id: str) -> DjangoSession:
        if session_id not in self.sessions:
            self.sessions[session_id] = super().session(session_id)
        return self.sessions[session_id]


class TestSession(
    testing.ConversationContract[SessionDriver],
    testing.AnyContextContract[SessionDriver],
    testing.BatchContract[SessionDriver],
    testing.PopContract[SessionDriver],
    testing.ClearContract[SessionDriver],
    testing.RedactionContract[SessionDriver],
):
    def driver(self, *, owner: Any = NOBODY, namespace: str = "") -> SessionDriver:
        return SessionDriver(owner, namespace)


class TestLivingSession(
    testing.ConversationContract[LivingSessionDriver],
    testing.AnyContextContract[LivingSessionDriver],
    testing.BatchContract[LivingSessionDriver],
    testing.PopContract[LivingSessionDriver],
    testing.ClearContract[LivingSessionDriver],
    testing.RedactionContract[LivingSessionDriver],
):
    def driver(self, *, owner: Any = NOBODY, namespace: str = "") -> LivingSessionDriver:
        return LivingSessionDriver(owner, namespace)
