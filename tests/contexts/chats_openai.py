"""Agents of the OpenAI Agents SDK with a ``DjangoSession``."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self
from uuid import uuid4

import agents
from agents.items import ModelResponse
from agents.usage import Usage
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from django_agent_sessions.adapters.openai_agents import DjangoSession

from .chats import Call, Step, Tool

QUIET = agents.RunConfig(tracing_disabled=True)


class OpenAIAgent:
    name = "openai"

    def __init__(
        self, session_id: str, *, steps: Sequence[Step] = (), tools: Sequence[Tool] = ()
    ) -> None:
        self.session = DjangoSession(session_id)
        self.agent: agents.Agent[None] = agents.Agent(
            name="assistant",
            model=_OpenAIModel(steps),
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


class _OpenAIModel(agents.Model):
    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = list(steps)

    async def get_response(
        self,
        system_instructions: Any,
        input: Any,  # noqa: A002 - the name that the SDK passes it by
        *args: Any,
        **kwargs: Any,
    ) -> ModelResponse:
        items = [input] if isinstance(input, str) else input
        step = self._steps.pop(0) if self._steps else f"You said: {_last_text(items)}"
        output: Any = (
            ResponseFunctionToolCall(
                type="function_call",
                call_id=f"call-{uuid4().hex[:12]}",
                name=step.write_tool_call,
                arguments=json.dumps(step.arguments),
            )
            if isinstance(step, Call)
            else ResponseOutputMessage(
                id=f"msg-{uuid4().hex[:12]}",
                type="message",
                role="assistant",
                status="completed",
                content=[ResponseOutputText(type="output_text", text=step, annotations=[])],
            )
        )
        return ModelResponse(output=[output], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("nobody here streams")


def _last_text(items: Sequence[Any]) -> str:
    last = next(item for item in reversed(items) if item.get("role") == "user")
    return str(last["content"])
