"""The append of a message, in one commit with other conversations."""

from __future__ import annotations

from strands.types.content import Message

from django_agent_sessions.store import GroupedAppend
from django_agent_sessions.values.records import Append, Written

from .newer_names import LocalAgent
from .session_operations import SessionOperations


class MessageAppend(GroupedAppend[None]):
    """The append of a message, in one commit with other conversations if possible."""

    def __init__(self, operations: SessionOperations, message: Message, agent: LocalAgent) -> None:
        self._operations, self._message, self._agent = operations, message, agent
        self._left = False

    def make(self) -> Append | None:
        conversation = self._operations.conversation(self._agent)
        return self._operations.begin_append(conversation, self._message, self._agent)

    def finish(self, written: Written) -> None:
        self._operations.end_append(self._operations.conversation(self._agent), written)

    def leave(self, unsure: bool) -> None:
        self._left = True
        self._operations.leave_append(self._operations.conversation(self._agent), unsure=unsure)

    def alone(self) -> None:
        if not self._left:
            self._operations.append(self._message, self._agent)
            return
        conversation = self._operations.conversation(self._agent)
        self._operations.append_pending(conversation, self._agent)
