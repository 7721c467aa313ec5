"""The contract kit, run on both ways into Strands."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from strands import Agent
from strands.hooks import MessageAddedEvent
from strands.types.exceptions import SessionException
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

from django_agent_sessions import testing
from django_agent_sessions.adapters.strands import DjangoSessionManager, DjangoSessionRepository
from django_agent_sessions.exceptions import SessionConflictError
from django_agent_sessions.values.owners import NOBODY

from .scripted import ScriptedModel


class MessageDriver:
    """What both drivers know of Strands' messages."""

    def __init__(self, owner: Any, namespace: str) -> None:
        self.owner = owner
        self.namespace = namespace

    def payload(self, text: str, data: Any = None) -> Any:
        return {
            "role": "user",
            "content": [{"text": text}],
            "tracking_id": str(uuid4()),
            "metadata": {"custom": {"data": data}},
        }

    def texts(self, payloads: Sequence[Any]) -> list[str]:
        return [payload["content"][0]["text"] for payload in payloads]


class ManagerDriver(MessageDriver):
    """Builds an agent for each call, as each request does."""

    def append(self, session_id: str, payloads: Sequence[Any]) -> None:
        manager = DjangoSessionManager(session_id, owner=self.owner, namespace=self.namespace)
        agent = self.agent(manager)
        for payload in payloads:
            agent.messages.append(payload)
            manager.append_message(payload, agent)

    def read(self, session_id: str) -> list[Any]:
        manager = DjangoSessionManager(session_id, owner=self.owner, namespace=self.namespace)
        return self.agent(manager).messages

    async def aappend(self, session_id: str, payloads: Sequence[Any]) -> None:
        agent = await self.loaded_agent(session_id)
        for payload in payloads:
            agent.messages.append(payload)
            await agent.hooks.invoke_callbacks_async(MessageAddedEvent(agent, payload))

    async def aread(self, session_id: str) -> list[Any]:
        return (await self.loaded_agent(session_id)).messages

    async def loaded_agent(self, session_id: str) -> Agent:
        return self.agent(
            await DjangoSessionManager.load(session_id, owner=self.owner, namespace=self.namespace)
        )

    def agent(self, manager: DjangoSessionManager) -> Agent:
        return Agent(model=ScriptedModel(), session_manager=manager, callback_handler=None)


class TestManager(
    testing.ConversationContract[ManagerDriver],
    testing.AnyContextContract[ManagerDriver],
):
    def driver(self, *, owner: Any = NOBODY, namespace: str = "") -> ManagerDriver:
        return ManagerDriver(owner, namespace)


class RepositoryDriver(MessageDriver):
    """Counts the positions itself, as Strands' own manager does; but tries again if too late."""

    agent_id = "agent"

    def __init__(self, owner: Any, namespace: str) -> None:
        super().__init__(owner, namespace)
        self.repository = DjangoSessionRepository(owner=owner, namespace=namespace)

    def append(self, session_id: str, payloads: Sequence[Any]) -> None:
        if self.repository.read_session(session_id) is None:
            self.repository.create_session(Session(session_id, SessionType.AGENT))
        if self.repository.read_agent(session_id, self.agent_id) is None:
            self.repository.create_agent(session_id, SessionAgent(self.agent_id, {}, {}))
        for payload in payloads:
            self._append_one(session_id, payload)

    def _append_one(self, session_id: str, payload: Any) -> None:
        for _ in range(200):
            there = self.repository.list_messages(session_id, self.agent_id)
            position = there[-1].message_id + 1 if there else 0
            message = SessionMessage.from_message(payload, position)
            with contextlib.suppress(SessionException):
                self.repository.create_message(session_id, self.agent_id, message)
                return
        raise SessionConflictError("others were faster each time")

    def read(self, session_id: str) -> list[Any]:
        found = self.repository.list_messages(session_id, self.agent_id)
        return [message.to_message() for message in found]

    async def aappend(self, session_id: str, payloads: Sequence[Any]) -> None:
        # Strands calls the repository in the loop's own thread too.
        self.append(session_id, payloads)

    async def aread(self, session_id: str) -> list[Any]:
        return self.read(session_id)

    def redact(self, session_id: str, position: int, payload: Any) -> None:
        found = self.repository.read_message(session_id, self.agent_id, position)
        assert found is not None
        found.redact_message = payload
        self.repository.update_message(session_id, self.agent_id, found)


class TestRepository(
    testing.ConversationContract[RepositoryDriver],
    testing.AnyContextContract[RepositoryDriver],
    testing.RedactionContract[RepositoryDriver],
):
    not_found = SessionException

    def driver(self, *, owner: Any = NOBODY, namespace: str = "") -> RepositoryDriver:
        return RepositoryDriver(owner, namespace)
