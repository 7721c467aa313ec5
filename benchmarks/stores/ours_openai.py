"""The app's adapter for the OpenAI Agents SDK."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from benchmarks.messages import Message
from django_agent_sessions.adapters.openai_agents import DjangoSession

from .interface import Conversation
from .ours_store import Ours


class OpenAI(Ours):
    """One session object per conversation."""

    name = "OpenAI DjangoSession"
    packages = ("django", "openai-agents")

    async def conversation(self, name: str) -> Conversation:
        return _Conversation(f"openai-{name}", self.alias)


class _Conversation(Conversation):
    def __init__(self, name: str, using: str) -> None:
        self.name = name
        self.using = using
        self.session = DjangoSession(name, using=using)

    async def fill(self, messages: Sequence[Message]) -> None:
        await self.append_many(messages)

    async def append(self, message: Message) -> None:
        await self.session.add_items([cast("Any", message)])

    async def append_many(self, messages: Sequence[Message]) -> None:
        await self.session.add_items(cast("Any", messages))

    async def restore(self) -> int:
        return len(await DjangoSession(self.name, using=self.using).get_items())

    async def latest(self, count: int) -> int:
        return len(await self.session.get_items(limit=count))
