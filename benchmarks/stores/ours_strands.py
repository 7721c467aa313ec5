"""The app's Strands adapter, by the hooks of a real agent."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.messages import Message, strands_messages
from django_agent_sessions.adapters.strands import DjangoSessionManager
from django_agent_sessions.store import SessionStore

from .interface import Conversation
from .ours_store import Ours
from .strands_agent import AGENT_ID, AgentConversation, build


class Strands(Ours):
    """One manager and agent per conversation."""

    name = "Strands DjangoSessionManager"
    packages = ("django", "strands-agents")
    messages = staticmethod(strands_messages)

    async def conversation(self, name: str) -> Conversation:
        conversation = _Conversation(self.store, f"strands-{name}")
        await conversation.restore()
        return conversation


class _Conversation(AgentConversation):
    def __init__(self, store: SessionStore, name: str) -> None:
        self.store = store
        self.name = name

    async def fill(self, messages: Sequence[Message]) -> None:
        session = await self.store.aopen(self.name)
        agent = await self.store.aopen_agent(session, AGENT_ID, dialect="strands")
        await self.store.aappend_many(agent, messages, count=False)
        await self.restore()

    async def restore(self) -> int:
        manager = await DjangoSessionManager.load(self.name, using=self.store.using)
        self.agent = build(manager)
        return len(self.agent.messages)
