"""A conversation behind the OpenAI Agents SDK's ``Session`` protocol, whoever implements it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence, Sized
from typing import Any, cast

from agents.memory import Session

from benchmarks.messages import Message

from .interface import Conversation, Store


class Sessions(Store):
    """A store of such sessions."""

    @abstractmethod
    async def session(self, name: str) -> Session:
        """Makes the object of a conversation, as a process does before its first turn."""

    async def conversation(self, name: str) -> Conversation:
        return _Conversation(await self.session(name))

    async def restore(self, name: str) -> Sized:
        return await (await self.session(name)).get_items()

    async def delete(self, name: str) -> None:
        await (await self.session(name)).clear_session()


class _Conversation(Conversation):
    def __init__(self, session: Session) -> None:
        self.session = session

    async def fill(self, messages: Sequence[Message]) -> None:
        await self.append_many(messages)

    async def append(self, message: Message) -> None:
        await self.session.add_items([cast("Any", message)])

    async def append_many(self, messages: Sequence[Message]) -> None:
        await self.session.add_items(cast("Any", list(messages)))

    async def latest(self, count: int) -> int:
        return len(await self.session.get_items(limit=count))
