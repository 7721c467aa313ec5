"""The app's own ``SessionStore``, with no SDK: awaited, as the adapters use it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from benchmarks.messages import Message
from django_agent_sessions.models import SessionMessage
from django_agent_sessions.records import AgentRecord
from django_agent_sessions.store import SessionStore

from .interface import Conversation, Store

DIALECT = "openai"


class Ours(Store):
    """A store of the app; its messages are in one table whoever wrote them."""

    packages: ClassVar[tuple[str, ...]] = ("django",)

    def __init__(self, alias: str) -> None:
        super().__init__(alias)
        self.store = SessionStore(using=alias)

    def tables(self) -> tuple[str, ...]:
        return (SessionMessage._meta.db_table,)


class Bare(Ours):
    """Messages only; a caller counts a turn with ``touch`` at its end, as the adapters do."""

    name = "SessionStore"

    async def conversation(self, name: str) -> Conversation:
        session = await self.store.aopen(f"store-{name}")
        agent = await self.store.aopen_agent(session, dialect=DIALECT)
        return _Conversation(self.store, agent)


class _Conversation(Conversation):
    def __init__(self, store: SessionStore, agent: AgentRecord) -> None:
        self.store = store
        self.agent = agent

    async def fill(self, messages: Sequence[Message]) -> None:
        await self.append_many(messages)

    async def append(self, message: Message) -> None:
        await self.store.aappend(self.agent, message, count=False)

    async def append_many(self, messages: Sequence[Any]) -> None:
        await self.store.aappend_many(self.agent, messages, count=False)

    async def restore(self) -> int:
        return len(await self.store.apayloads(self.agent))

    async def latest(self, count: int) -> int:
        return len(await self.store.apayloads(self.agent, latest=count))
