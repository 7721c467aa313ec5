"""Strands' ``FileSessionManager``: one JSON file per message, not synced to the disk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from strands.session.file_session_manager import FileSessionManager
from strands.types.session import SessionMessage

from benchmarks.databases import sqlite_file
from benchmarks.messages import Message, strands_messages

from .interface import Conversation, Store
from .strands_agent import AGENT_ID, AgentConversation, build


class StrandsFiles(Store):
    """One manager and agent per conversation."""

    name = "Strands FileSessionManager"
    packages = ("strands-agents",)
    messages = staticmethod(strands_messages)

    async def conversation(self, name: str) -> Conversation:
        return _Conversation(name)


class _Conversation(AgentConversation):
    def __init__(self, name: str) -> None:
        self.name = name
        self.manager = self.new_manager()
        super().__init__(build(self.manager))

    def new_manager(self) -> FileSessionManager:
        return FileSessionManager(self.name, storage_dir=sqlite_file("strands"))

    async def fill(self, messages: Sequence[Message]) -> None:
        for number, message in enumerate(messages):
            self.manager.create_message(
                self.name, AGENT_ID, SessionMessage(cast("Any", message), number)
            )
        self.manager = self.new_manager()
        self.agent = build(self.manager)

    async def restore(self) -> int:
        return len(build(self.new_manager()).messages)

    async def latest(self, count: int) -> int:
        offset = len(self.agent.messages) - count
        return len(self.manager.list_messages(self.name, AGENT_ID, limit=count, offset=offset))
