"""The app's own ``SessionStore``, with no SDK: awaited, as the adapters use it."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from asgiref.sync import sync_to_async
from django.contrib.auth import get_user_model

from benchmarks import settings
from benchmarks.messages import Message
from django_agent_sessions.models import Session, SessionMessage
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.records import AgentRecord, Usage

from .interface import Conversation, Store

DIALECT = "openai"


class Ours(Store):
    """A store of the app; its messages are in one table whoever wrote them."""

    packages: ClassVar[tuple[str, ...]] = ("django",)
    prefix: ClassVar[str]

    def __init__(self, alias: str) -> None:
        super().__init__(alias)
        self.store = SessionStore(using=alias)

    async def delete(self, name: str) -> None:
        assert await self.store.adelete(f"{self.prefix}-{name}")

    def tables(self) -> tuple[str, ...]:
        return (SessionMessage._meta.db_table,)

    def path(self) -> str:
        return str(settings.DATABASES["sqlite"]["NAME"])


class Bare(Ours):
    """Messages only; a caller counts a turn with ``touch`` at its end, as the adapters do."""

    name = "SessionStore"
    prefix = "store"

    def __init__(self, alias: str) -> None:
        super().__init__(alias)
        self.agents: dict[str, AgentRecord] = {}

    async def conversation(self, name: str) -> Conversation:
        return _Conversation(self.store, await self._agent(name))

    async def restore(self, name: str) -> Sized:
        # Who asks the store by itself has the record of the agent.
        return await self.store.apayloads(self.agents.get(name) or await self._agent(name))

    async def fill_sessions(self, count: int) -> None:
        owner = await sync_to_async(self._fill_sessions)(count)
        self.lists = SessionStore(owner=owner, using=self.alias)

    async def list_sessions(self, count: int) -> int:
        return len(await self.lists.sessions.alist(limit=count))

    async def _agent(self, name: str) -> AgentRecord:
        session = await self.store.aopen(f"{self.prefix}-{name}")
        self.agents[name] = await self.store.agents.aopen(session, dialect=DIALECT)
        return self.agents[name]

    def _fill_sessions(self, count: int) -> Any:
        owner = get_user_model().objects.using(self.alias).create(username="somebody")
        last = datetime.now(UTC) - timedelta(days=1)
        Session.objects.using(self.alias).bulk_create(
            (
                Session(
                    session_id=f"session-{number}",
                    owner=owner,
                    last_activity_at=last - timedelta(seconds=count - number),
                )
                for number in range(count)
            ),
            batch_size=500,
        )
        return owner


class _Conversation(Conversation):
    def __init__(self, store: SessionStore, agent: AgentRecord) -> None:
        self.store = store
        self.agent = agent
        self.added = 0

    async def fill(self, messages: Sequence[Message]) -> None:
        await self.append_many(messages)

    async def append(self, message: Message) -> None:
        await self.store.aappend(self.agent, message, count=False)
        self.added += 1

    async def append_many(self, messages: Sequence[Any]) -> None:
        await self.store.aappend_many(self.agent, messages, count=False)

    async def end_turn(self) -> None:
        await self.store.atouch(self.agent.session, Usage(messages=self.added))
        self.added = 0

    async def latest(self, count: int) -> int:
        return len(await self.store.apayloads(self.agent, latest=count))
