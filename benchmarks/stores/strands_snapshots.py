"""Strands' ``SnapshotSessionManager``, which hands the whole conversation to its storage.

``save_latest_on="message"`` makes it keep each message, as all other stores do here.
"""

from __future__ import annotations

from collections.abc import Sequence, Sized
from typing import Any, cast

from strands.session import SnapshotSessionManager
from strands.storage import LocalFileStorage

from benchmarks.databases import directory_size, file
from benchmarks.messages import Message, strands_messages
from django_agent_sessions.adapters.strands import DjangoStorage

from .interface import Conversation, Store
from .ours_store import Ours
from .strands_agent import AgentConversation, build


class _Snapshots(Store):
    messages = staticmethod(strands_messages)

    def storage(self) -> Any:
        """The storage under the manager."""
        raise NotImplementedError

    def manager(self, name: str) -> SnapshotSessionManager:
        return SnapshotSessionManager(
            f"snapshots-{name}", storage=self.storage(), save_latest_on="message"
        )

    async def conversation(self, name: str) -> Conversation:
        return _Conversation(self, name)

    async def restore(self, name: str) -> Sized:
        return build(self.manager(name)).messages

    async def delete(self, name: str) -> None:
        await self.manager(name).delete_session()


class OnDjango(_Snapshots, Ours):
    """On the app's storage, which writes what is new."""

    name = "Strands snapshots, DjangoStorage"
    packages = ("django", "strands-agents")

    def storage(self) -> Any:
        return DjangoStorage(using=self.alias)


class OnFiles(_Snapshots):
    """On Strands' own storage in a directory, which is not synced to the disk."""

    name = "Strands snapshots, local files"
    packages = ("strands-agents",)
    rewrites = True

    def storage(self) -> Any:
        return LocalFileStorage(self.path())

    def path(self) -> str:
        return file("snapshots")

    async def size(self) -> int | None:
        return directory_size(self.path())


class _Conversation(AgentConversation):
    def __init__(self, store: _Snapshots, name: str) -> None:
        self.store = store
        self.name = name
        super().__init__(build(store.manager(name)))

    async def fill(self, messages: Sequence[Message]) -> None:
        # All but the last, which is what makes the manager save.
        self.agent.messages.extend(cast("Any", messages[:-1]))
        await self.append(messages[-1])
