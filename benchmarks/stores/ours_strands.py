"""The app's Strands adapter, by the hooks of a real agent."""

from __future__ import annotations

from collections.abc import Sequence, Sized

from benchmarks.messages import Message, strands_messages
from django_agent_sessions.adapters.strands import DjangoSessionManager

from .interface import Conversation
from .ours_store import Ours
from .strands_agent import AGENT_ID, AgentConversation, build


class Strands(Ours):
    """One manager and agent per conversation."""

    name = "Strands DjangoSessionManager"
    packages = ("django", "strands-agents")
    messages = staticmethod(strands_messages)
    prefix = "strands"

    async def conversation(self, name: str) -> Conversation:
        return _Conversation(self, name, await self.manager(name))

    async def restore(self, name: str) -> Sized:
        return build(await self.manager(name)).messages

    async def manager(self, name: str) -> DjangoSessionManager:
        return await DjangoSessionManager.load(f"{self.prefix}-{name}", using=self.alias)


class _Conversation(AgentConversation):
    def __init__(self, store: Strands, name: str, manager: DjangoSessionManager) -> None:
        self.stored = store
        self.name = name
        super().__init__(build(manager))

    async def fill(self, messages: Sequence[Message]) -> None:
        store = self.stored.store
        session = await store.aopen(f"{self.stored.prefix}-{self.name}")
        agent = await store.agents.aopen(session, AGENT_ID, dialect="strands")
        await store.aappend_many(agent, messages, count=False)
        self.agent = build(await self.stored.manager(self.name))
