"""The contract kit, run on the store itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django_agent_sessions import testing
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.owners import NOBODY
from django_agent_sessions.values.records import AgentRecord


class StoreDriver:
    def __init__(self, owner: Any, namespace: str) -> None:
        self.store = SessionStore(owner=owner, namespace=namespace)

    def payload(self, text: str, data: Any = None) -> Any:
        return {"role": "user", "content": text, "data": data}

    def texts(self, payloads: Sequence[Any]) -> list[str]:
        return [payload["content"] for payload in payloads]

    def append(self, session_id: str, payloads: Sequence[Any]) -> None:
        self.store.append_many(self.agent(session_id), payloads)

    def read(self, session_id: str) -> list[Any]:
        return self.store.payloads(self.store.agents.open(self.store.get(session_id)))

    async def aappend(self, session_id: str, payloads: Sequence[Any]) -> None:
        agent = await self.store.agents.aopen(await self.store.aopen(session_id))
        await self.store.aappend_many(agent, payloads)

    async def aread(self, session_id: str) -> list[Any]:
        agent = await self.store.agents.aopen(await self.store.aget(session_id))
        return await self.store.apayloads(agent)

    def pop(self, session_id: str) -> Any | None:
        return self.store.pop(self.agent(session_id))

    def clear(self, session_id: str) -> None:
        self.store.clear(self.agent(session_id))

    def redact(self, session_id: str, position: int, payload: Any) -> None:
        self.store.messages.redact(self.agent(session_id), position, payload)

    def agent(self, session_id: str) -> AgentRecord:
        return self.store.agents.open(self.store.open(session_id))


class TestStore(
    testing.ConversationContract[StoreDriver],
    testing.AnyContextContract[StoreDriver],
    testing.CancellationContract[StoreDriver],
    testing.ProcessContract[StoreDriver],
    testing.BatchContract[StoreDriver],
    testing.PopContract[StoreDriver],
    testing.ClearContract[StoreDriver],
    testing.RedactionContract[StoreDriver],
):
    def driver(self, *, owner: Any = NOBODY, namespace: str = "") -> StoreDriver:
        return StoreDriver(owner, namespace)
