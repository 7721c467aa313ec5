"""An offline model for Strands Agents."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any
from uuid import uuid4

from strands.models.model import Model
from strands.types.content import Messages
from strands.types.event_loop import StopReason, Usage
from strands.types.streaming import StreamEvent
from strands.types.tools import ToolSpec

from django_agent_sessions.content import dialects

from . import pace, rules


class OfflineStrandsModel(Model):
    """Streams what the rules say, as a provider would.

    Args:
        answer: The rules.
    """

    def __init__(self, answer: rules.Rules = rules.concierge) -> None:
        self._answer = answer

    def update_config(self, **model_config: Any) -> None:
        """There is nothing to configure."""

    def get_config(self) -> dict[str, Any]:
        """Names the model."""
        return {"model_id": "offline"}

    def structured_output(self, *args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
        """Rules make no structured output.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError("the offline model makes no structured output")

    async def stream(
        self,
        messages: Messages,
        tool_specs: list[ToolSpec] | None = None,
        system_prompt: str | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[StreamEvent]:
        """Streams the next message.

        Args:
            messages: The conversation so far.
            tool_specs: The tools there are.
            system_prompt: Ignored.
            **kwargs: Ignored.

        Yields:
            The events of one message.
        """
        names = {spec["name"] for spec in tool_specs or ()}
        step = self._answer(rules.turns(dialects.STRANDS, messages), names)
        await pace.first()
        yield {"messageStart": {"role": "assistant"}}
        if isinstance(step, rules.Call):
            said = json.dumps(step.arguments)
            use_id = f"tooluse_{uuid4().hex}"
            yield {
                "contentBlockStart": {
                    "start": {"toolUse": {"name": step.write_tool_call, "toolUseId": use_id}}
                }
            }
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": said}}}}
        else:
            said = step.text if isinstance(step, rules.Considered) else step
            if isinstance(step, rules.Considered):
                yield {"contentBlockStart": {"start": {}}}
                async for word in pace.words(step.thought):
                    yield {"contentBlockDelta": {"delta": {"reasoningContent": {"text": word}}}}
                yield {"contentBlockStop": {}}
            yield {"contentBlockStart": {"start": {}}}
            async for word in pace.words(said):
                yield {"contentBlockDelta": {"delta": {"text": word}}}
        yield {"contentBlockStop": {}}
        stop: StopReason = "tool_use" if isinstance(step, rules.Call) else "end_turn"
        yield {"messageStop": {"stopReason": stop}}
        heard = rules.tokens(json.dumps(messages, default=str))
        answered = rules.tokens(said)
        usage = Usage(inputTokens=heard, outputTokens=answered, totalTokens=heard + answered)
        yield {"metadata": {"usage": usage, "metrics": {"latencyMs": 1}}}
