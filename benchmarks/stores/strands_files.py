"""Strands' ``FileSessionManager``: one JSON file per message, not synced to the disk."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from typing import Any, cast

from strands.session.file_session_manager import FileSessionManager
from strands.session.repository_session_manager import RepositorySessionManager
from strands.types.session import SessionMessage

from benchmarks.databases import directory_size, file
from benchmarks.messages import Message, strands_messages

from .interface import Conversation, Store
from .strands_agent import AGENT_ID, AgentConversation, build


class Repository(Store):
    """A store whose manager is a repository, too: one manager and agent per conversation."""

    messages = staticmethod(strands_messages)

    def manager(self, name: str) -> RepositorySessionManager:
        """Makes the manager of a conversation, as a process does before its first message."""
        raise NotImplementedError

    async def conversation(self, name: str) -> Conversation:
        return _Conversation(self, name)

    async def restore(self, name: str) -> Sized:
        return build(self.manager(name)).messages

    async def delete(self, name: str) -> None:
        cast("Any", self.manager(name)).delete_session(name)


class StrandsFiles(Repository):
    """In a directory."""

    name = "Strands FileSessionManager"
    packages = ("strands-agents",)

    def manager(self, name: str) -> RepositorySessionManager:
        return FileSessionManager(name, storage_dir=self.path())

    def path(self) -> str:
        return file("strands")

    async def size(self) -> int | None:
        return directory_size(self.path())


class _Conversation(AgentConversation):
    def __init__(self, store: Repository, name: str) -> None:
        self.store = store
        self.name = name
        self.manager = store.manager(name)
        super().__init__(build(self.manager))

    async def fill(self, messages: Sequence[Message]) -> None:
        repository = self.manager.session_repository
        for number, message in enumerate(messages):
            repository.create_message(
                self.name, AGENT_ID, SessionMessage(cast("Any", message), number)
            )
        self.manager = self.store.manager(self.name)
        self.agent = build(self.manager)

    async def latest(self, count: int) -> int:
        offset = len(self.agent.messages) - count
        repository = self.manager.session_repository
        return len(repository.list_messages(self.name, AGENT_ID, limit=count, offset=offset))
