"""Agents of the OpenAI Agents SDK with a ``DjangoSession``."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

import agents

from django_agent_sessions.adapters.openai_agents import DjangoSession
from tests.adapters.openai_agents import scripted

from .chats import Call, Step, Tool

QUIET = agents.RunConfig(tracing_disabled=True)


class OpenAIAgent:
    name = "openai"

    def __init__(
        self, session_id: str, *, steps: Sequence[Step] = (), tools: Sequence[Tool] = ()
    ) -> None:
        script = [
            scripted.call(step.write_tool_call, **step.arguments)
            if isinstance(step, Call)
            else step
            for step in steps
        ]
        self.session = DjangoSession(session_id)
        self.agent: agents.Agent[None] = agents.Agent(
            name="assistant",
            model=scripted.ScriptedModel(script),
            tools=[agents.function_tool(tool) for tool in tools],
        )

    @classmethod
    async def load(cls, session_id: str, **options: Any) -> Self:
        return cls(session_id, **options)

    def say(self, text: str) -> str:
        with _loop_closed_afterwards():
            result = agents.Runner.run_sync(
                self.agent, text, session=self.session, run_config=QUIET
            )
        return str(result.final_output)

    async def asay(self, text: str) -> str:
        result = await agents.Runner.run(self.agent, text, session=self.session, run_config=QUIET)
        return str(result.final_output)


@contextmanager
def _loop_closed_afterwards() -> Iterator[None]:
    """Closes the loop that ``run_sync`` makes for its thread and leaves open."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        yield
    finally:
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
        asyncio.set_event_loop(None)
