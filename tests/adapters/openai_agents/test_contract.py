"""The contract kit, run on the session of the OpenAI Agents SDK."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from agents import Agent, RunConfig, Runner
from openai.types.responses import ResponseInputItemParam
from pydantic import TypeAdapter

from django_agent_sessions import testing
from django_agent_sessions.adapters.openai_agents import AdvancedDjangoSession, DjangoSession
from django_agent_sessions.values.owners import NOBODY
from tests.adapters.processes import start_worker

from .scripted import ScriptedModel, call
from .team import register, user

QUIET = RunConfig(tracing_disabled=True)


class SessionDriver:
    """Its sync methods run a loop of their own, as a program's ``asyncio.run`` does."""

    session_class: type[DjangoSession] = DjangoSession

    def __init__(self, owner: Any, namespace: str) -> None:
        self.owner = owner
        self.namespace = namespace

    def payload(self, text: str, data: Any = None) -> Any:
        return {"role": "user", "content": text, "data": data}

    def texts(self, payloads: Sequence[Any]) -> list[str]:
        return [payload["content"] for payload in payloads]

    def append(self, session_id: str, payloads: Sequence[Any]) -> None:
        asyncio.run(self.aappend(session_id, payloads))

    def read(self, session_id: str) -> list[Any]:
        return asyncio.run(self.aread(session_id))

    async def aappend(self, session_id: str, payloads: Sequence[Any]) -> None:
        await self.session(session_id).add_items(list(payloads))

    async def aread(self, session_id: str) -> list[Any]:
        return list(await self.session(session_id).get_items())

    def pop(self, session_id: str) -> Any | None:
        return asyncio.run(self.session(session_id).pop_item())

    def clear(self, session_id: str) -> None:
        asyncio.run(self.session(session_id).clear_session())

    def redact(self, session_id: str, position: int, payload: Any) -> None:
        asyncio.run(self.session(session_id).redact_item(position, payload))

    async def arun(
        self,
        session_id: str,
        text: str,
        *,
        wait: float = 0.2,
        during: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        async with self.session(session_id, exclusive=True, wait=wait) as session:
            await session.add_items([user(text)])
            if during is not None:
                await during()
            await session.add_items([user("Done.")])

    def converse(self, session_id: str, prompt: str, *steps: str | testing.ToolCall) -> list[Any]:
        model = ScriptedModel(
            [step if isinstance(step, str) else _tool_call(step) for step in steps]
        )
        agent: Agent[Any] = Agent(name="assistant", model=model, tools=[register])
        session = self.session(session_id)
        asyncio.run(Runner.run(agent, prompt, session=session, run_config=QUIET))
        return model.requests[-1]

    def kept(self, session_id: str) -> None:
        """A run reads the session; its agent keeps nothing."""

    def check(self, messages: Sequence[Any]) -> None:
        calls = [item["call_id"] for item in messages if item.get("type") == "function_call"]
        results = [m["call_id"] for m in messages if m.get("type") == "function_call_output"]
        assert calls == results != []
        for item in messages:
            TypeAdapter(ResponseInputItemParam).validate_python(item)

    def session(self, session_id: str, **options: Any) -> DjangoSession:
        return self.session_class(session_id, owner=self.owner, namespace=self.namespace, **options)


def _tool_call(step: testing.ToolCall) -> Any:
    return call(step.tool, **step.arguments).model_copy(
        update={"call_id": step.id, "arguments": json.dumps(step.arguments)}
    )


class LivingSessionDriver(SessionDriver):
    """Uses one object per session, so that it may know what is in the database."""

    def __init__(self, owner: Any, namespace: str) -> None:
        super().__init__(owner, namespace)
        self.sessions: dict[str, DjangoSession] = {}

    def session(self, session_id: str, **options: Any) -> DjangoSession:
        if session_id not in self.sessions:
            self.sessions[session_id] = super().session(session_id, **options)
        return self.sessions[session_id]


class AdvancedSessionDriver(LivingSessionDriver):
    session_class = AdvancedDjangoSession


class TestSession(
    testing.ConversationContract[SessionDriver],
    testing.AnyContextContract[SessionDriver],
    testing.BatchContract[SessionDriver],
    testing.PopContract[SessionDriver],
    testing.ClearContract[SessionDriver],
    testing.RedactionContract[SessionDriver],
):
    def driver(self, *, owner: Any = NOBODY, namespace: str = "") -> SessionDriver:
        return SessionDriver(owner, namespace)


class TestLivingSession(
    testing.AdapterContract[LivingSessionDriver],
    testing.BatchContract[LivingSessionDriver],
    testing.PopContract[LivingSessionDriver],
    testing.ClearContract[LivingSessionDriver],
    testing.RedactionContract[LivingSessionDriver],
    testing.MemoryContract[LivingSessionDriver],
    testing.RewriteContract[LivingSessionDriver],
    testing.ExclusiveContract[LivingSessionDriver],
    testing.AgentContract[LivingSessionDriver],
):
    blocks = {
        "a call's arguments": (1, ("arguments",)),
        "an output": (2, ("output",)),
        "a block of an answer": (3, ("content", 0)),
    }
    spans = {"arguments": (1, ("arguments",), 2, 9)}
    start = staticmethod(start_worker)

    def driver(self, *, owner: Any = NOBODY, namespace: str = "") -> LivingSessionDriver:
        return LivingSessionDriver(owner, namespace)


class TestAdvancedSession(
    testing.ClearContract[AdvancedSessionDriver],
    testing.MemoryContract[AdvancedSessionDriver],
    testing.RewriteContract[AdvancedSessionDriver],
    testing.ExclusiveContract[AdvancedSessionDriver],
):
    def driver(self, *, owner: Any = NOBODY, namespace: str = "") -> AdvancedSessionDriver:
        return AdvancedSessionDriver(owner, namespace)
