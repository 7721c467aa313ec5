"""What the measurement does with a store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar

from benchmarks.messages import Message, openai_items


class Conversation(ABC):
    """One conversation of a store. Everything is awaited, as inside a running agent.

    What a store cannot do raises ``NotImplementedError`` and is shown as a dash.
    """

    @abstractmethod
    async def fill(self, messages: Sequence[Message]) -> None:
        """Writes messages as fast as it goes; not measured."""

    @abstractmethod
    async def append(self, message: Message) -> None:
        """Writes one message as a running agent would."""

    async def append_many(self, messages: Sequence[Message]) -> None:
        """Writes several messages in one call."""
        raise NotImplementedError

    @abstractmethod
    async def restore(self) -> int:
        """Reads the conversation in a fresh process's way; tells how many messages came."""

    async def latest(self, count: int) -> int:
        """Reads the last messages; tells how many came."""
        raise NotImplementedError


class Store(ABC):
    """A session store on one database.

    Args:
        alias: The database: ``sqlite`` or ``postgresql``.
    """

    name: ClassVar[str]
    packages: ClassVar[tuple[str, ...]]
    messages: Callable[[int], list[Message]] = staticmethod(openai_items)

    def __init__(self, alias: str) -> None:
        self.alias = alias

    async def start(self) -> None:  # noqa: B027 - not every store needs it
        """Makes tables and connections, where that is not done yet."""

    async def stop(self) -> None:  # noqa: B027 - not every store needs it
        """Closes connections."""

    @abstractmethod
    async def conversation(self, name: str) -> Conversation:
        """Opens a conversation, new or not, as a process does before its first message."""

    def tables(self) -> tuple[str, ...]:
        """The tables that hold messages, whose size is measured on PostgreSQL."""
        return ()

    async def concurrent(self, name: str) -> Conversation:
        """Opens one of many conversations that are written to at the same time."""
        return await self.conversation(name)
