"""Agents of Strands with a ``DjangoSessionManager``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import strands
from strands.agent.conversation_manager import NullConversationManager

from django_agent_sessions.adapters.strands import DjangoSessionManager
from tests.adapters.strands import scripted

from .chats import Call, Step, Tool


class StrandsAgent:
    name = "strands"

    def __init__(
        self,
        session_id: str,
        *,
        steps: Sequence[Step] = (),
        tools: Sequence[Tool] = (),
        manager: DjangoSessionManager | None = None,
    ) -> None:
        script = [
            scripted.call(step.write_tool_call, **step.arguments)
            if isinstance(step, Call)
            else step
            for step in steps
        ]
        self.agent = strands.Agent(
            model=scripted.ScriptedModel(script),
            tools=[strands.tool(tool) for tool in tools],
            session_manager=manager or DjangoSessionManager(session_id),
            # Nothing is taken out of the agent's memory, so that a restore brings everything.
            conversation_manager=NullConversationManager(),
            callback_handler=None,
        )

    @classmethod
    async def load(cls, session_id: str, **options: Any) -> Self:
        return cls(session_id, manager=await DjangoSessionManager.load(session_id), **options)

    def say(self, text: str) -> str:
        return str(self.agent(text)).strip()

    async def asay(self, text: str) -> str:
        return str(await self.agent.invoke_async(text)).strip()
