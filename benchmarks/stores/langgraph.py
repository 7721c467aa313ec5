"""LangGraph's ``AsyncPostgresSaver`` with a pool, as its documentation sets it up.

What is measured is its checkpointer alone, without the graph: one checkpoint for each message,
whose one channel holds the conversation, as ``MessagesState`` keeps it. (A channel that writes only
what is new is in beta.) Messages are plain dictionaries, which it reads faster than its own.
"""

from __future__ import annotations

from collections.abc import Sequence, Sized
from typing import Any

from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from benchmarks.databases import postgresql_url
from benchmarks.messages import Message

from .interface import Conversation, Store


class LangGraph(Store):
    """A thread per conversation."""

    name = "LangGraph PostgresSaver"
    packages = ("langgraph-checkpoint-postgres", "psycopg", "psycopg-pool")
    rewrites = True

    async def start(self) -> None:
        self.pool: Any = AsyncConnectionPool(
            postgresql_url("postgresql"),
            min_size=1,
            max_size=8,
            open=False,
            kwargs={"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row},
        )
        await self.pool.open()
        self.saver: Any = AsyncPostgresSaver(self.pool)
        await self.saver.setup()

    async def stop(self) -> None:
        await self.pool.close()

    async def conversation(self, name: str) -> Conversation:
        return _Conversation(self.saver, name)

    async def restore(self, name: str) -> Sized:
        return await _messages(self.saver, name)

    async def delete(self, name: str) -> None:
        await self.saver.adelete_thread(name)

    def tables(self) -> tuple[str, ...]:
        return ("checkpoints", "checkpoint_blobs")


class _Conversation(Conversation):
    def __init__(self, saver: Any, name: str) -> None:
        self.saver = saver
        self.name = name
        self.config: Any = {"configurable": {"thread_id": name, "checkpoint_ns": ""}}
        self.messages: list[Message] = []
        self.version: Any = None

    async def fill(self, messages: Sequence[Message]) -> None:
        await self.append_many(messages)

    async def append(self, message: Message) -> None:
        await self.append_many([message])

    async def append_many(self, messages: Sequence[Message]) -> None:
        self.messages = [*self.messages, *messages]
        self.version = self.saver.get_next_version(self.version, None)
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {"messages": self.messages}
        checkpoint["channel_versions"] = {"messages": self.version}
        self.config = await self.saver.aput(
            self.config,
            checkpoint,
            {"source": "loop", "step": len(self.messages)},
            {"messages": self.version},
        )

    async def latest(self, count: int) -> int:
        return len((await _messages(self.saver, self.name))[-count:])


async def _messages(saver: Any, name: str) -> list[Message]:
    found = await saver.aget_tuple({"configurable": {"thread_id": name, "checkpoint_ns": ""}})
    messages: list[Message] = found.checkpoint["channel_values"]["messages"]
    return messages
