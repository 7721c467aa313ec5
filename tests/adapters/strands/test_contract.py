"""The contract kit, run on both ways into Strands."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import uuid4

from strands import Agent, tool
from strands.hooks import AfterInvocationEvent, BeforeInvocationEvent, MessageAddedEvent
from strands.types.exceptions import SessionException
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

from django_agent_sessions import testing
from django_agent_sessions.adapters.strands import DjangoSessionManager, DjangoSessionRepository
from django_agent_sessions.exceptions import SessionConflictError
from django_agent_sessions.values.owners import NOBODY
from tests.adapters.processes import start_worker

from .agents import expect_valid
from .scripted import ScriptedModel


@tool
def register(name: str) -> str:
    """Register somebody.

    Args:
        name: Who.
    """
    return f"registered {name}"


class PausingModel(ScriptedModel):
    """A scripted model that awaits something before each answer."""

    during: Callable[[], Awaitable[None]] | None = None

    async def stream(self, *args: Any, **kwargs: Any) -> Any:
        if self.during is not None:
            await self.during()
        async for event in super().stream(*args, **kwargs):
            yield event


class MessageDriver:
    """What the drivers know of Strands' messages."""

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
        agent = self.agent(session_id)
        for payload in payloads:
            agent.messages.append(payload)
            self.manager_of(agent).append_message(payload, agent)
        # The end of the run counts the messages.
        asyncio.run(agent.hooks.invoke_callbacks_async(AfterInvocationEvent(agent)))

    def read(self, session_id: str) -> list[Any]:
        return self.agent(session_id).messages

    async def aappend(self, session_id: str, payloads: Sequence[Any]) -> None:
        agent = await self.loaded_agent(session_id)
        for payload in payloads:
            agent.messages.append(payload)
            await agent.hooks.invoke_callbacks_async(MessageAddedEvent(agent, payload))

    async def aread(self, session_id: str) -> list[Any]:
        return (await self.loaded_agent(session_id)).messages

    async def arun(
        self,
        session_id: str,
        text: str,
        *,
        wait: float = 0.2,
        during: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        agent = self.agent(session_id, exclusive=True, wait=wait)
        assert isinstance(agent.model, PausingModel)
        agent.model.during = during
        await agent.invoke_async(text)

    def converse(self, session_id: str, prompt: str, *steps: str | testing.ToolCall) -> list[Any]:
        script = [
            step
            if isinstance(step, str)
            else {"name": step.tool, "input": step.arguments, "toolUseId": step.id}
            for step in steps
        ]
        agent = self.agent(session_id)
        agent.model = model = ScriptedModel(script)
        agent(prompt)
        return model.requests[-1]

    def kept(self, session_id: str) -> Any:
        return self.agent(session_id).messages

    def check(self, messages: Sequence[Any]) -> None:
        roles = [message["role"] for message in messages]
        assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]
        expect_valid(messages)
        blocks = [block for message in messages for block in message["content"]]
        assert any("toolUse" in block for block in blocks)
        assert all(block.get("text", "x").strip() for block in blocks)
        assert all(message["content"] for message in messages)

    def agent(self, session_id: str, **options: Any) -> Agent:
        return self._build(
            DjangoSessionManager(session_id, owner=self.owner, namespace=self.namespace, **options)
        )

    async def loaded_agent(self, session_id: str) -> Agent:
        return self._build(
            await DjangoSessionManager.load(session_id, owner=self.owner, namespace=self.namespace)
        )

    def manager_of(self, agent: Agent) -> DjangoSessionManager:
        assert isinstance(agent._session_manager, DjangoSessionManager)
        return agent._session_manager

    def _build(self, manager: DjangoSessionManager) -> Agent:
        return Agent(
            model=PausingModel(), session_manager=manager, tools=[register], callback_handler=None
        )


class LivingManagerDriver(ManagerDriver):
    """Uses one agent per session, as a program does; each call is a run of it."""

    def __init__(self, owner: Any, namespace: str) -> None:
        super().__init__(owner, namespace)
        self.agents: dict[str, Agent] = {}

    def append(self, session_id: str, payloads: Sequence[Any]) -> None:
        agent = self.agent(session_id)
        agent.hooks.invoke_callbacks(BeforeInvocationEvent(agent))
        super().append(session_id, payloads)

    def agent(self, session_id: str, **options: Any) -> Agent:
        if session_id not in self.agents:
            self.agents[session_id] = super().agent(session_id, **options)
        return self.agents[session_id]

    async def loaded_agent(self, session_id: str) -> Agent:
        if session_id not in self.agents:
            self.agents[session_id] = await super().loaded_agent(session_id)
        return self.agents[session_id]


class TestManager(
    testing.ConversationContract[ManagerDriver],
    testing.AnyContextContract[ManagerDriver],
):
    def driver(self, *, owner: Any = NOBODY, namespace: str = "") -> ManagerDriver:
        return ManagerDriver(owner, namespace)


class TestLivingManager(
    testing.AdapterContract[LivingManagerDriver],
    testing.MemoryContract[LivingManagerDriver],
    testing.ExclusiveContract[LivingManagerDriver],
    testing.AgentContract[LivingManagerDriver],
):
    append_statements = 2
    blocks = {
        "a tool call's block": (1, ("content", 0)),
        "a result's block": (2, ("content", 0)),
        "what a result holds": (2, ("content", 0, "toolResult", "content", 0)),
    }
    spans = {"a prompt": (0, ("content", 0, "text"), 0, 3)}
    start = staticmethod(start_worker)

    def driver(self, *, owner: Any = NOBODY, namespace: str = "") -> LivingManagerDriver:
        return LivingManagerDriver(owner, namespace)


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
