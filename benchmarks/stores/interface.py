"""What the measurement does with a store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence, Sized
from typing import ClassVar

from benchmarks.databases import file_output, file_size, logged, table_size
from benchmarks.messages import Message, openai_items


class UnavailableError(Exception):
    """What a store needs is not there; it is left out."""


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

    async def end_turn(self) -> None:  # noqa: B027 - not every store does something then
        """Does what the store does when an agent has answered."""

    async def latest(self, count: int) -> int:
        """Reads the last messages; tells how many came."""
        raise NotImplementedError


class Store(ABC):
    """A session store on one database."""

    name: ClassVar[str]
    packages: ClassVar[tuple[str, ...]]
    messages: Callable[[int], list[Message]] = staticmethod(openai_items)
    longest: ClassVar[int] = 10_000
    rewrites: ClassVar[bool] = False
    remark: str = ""

    def __init__(self, alias: str) -> None:
        self.alias = alias

    async def start(self) -> None:  # noqa: B027 - not every store needs it
        """Makes tables and connections, where that is not done yet."""

    async def stop(self) -> None:  # noqa: B027 - not every store needs it
        """Closes connections."""

    @abstractmethod
    async def conversation(self, name: str) -> Conversation:
        """Opens a conversation, new or not, as a process does before its first message."""

    async def concurrent(self, name: str) -> Conversation:
        """Opens one of many conversations that are written to at the same time."""
        return await self.conversation(name)

    @abstractmethod
    async def restore(self, name: str) -> Sized:
        """Reads a conversation as a process does that has nothing of it yet."""

    @abstractmethod
    async def delete(self, name: str) -> None:
        """Deletes a conversation with its messages."""

    async def fill_sessions(self, count: int) -> None:
        """Makes sessions without messages, all of one user; not measured."""
        raise NotImplementedError

    async def list_sessions(self, count: int) -> int:
        """Lists that user's latest sessions; tells how many came."""
        raise NotImplementedError

    def tables(self) -> tuple[str, ...]:
        """The tables that hold messages, on PostgreSQL."""
        return ()

    def path(self) -> str:
        """The file or directory that holds messages, elsewhere."""
        return ""

    async def size(self) -> int | None:
        """Tells how many bytes are stored, indexes included."""
        if self.tables() and self.alias == "postgresql":
            return table_size(self.tables())
        if self.path():
            return file_size(self.path())
        return None

    async def written(self) -> int | None:
        """Tells how many bytes were written by now; counted from anywhere."""
        return logged() if self.alias == "postgresql" else file_output()
