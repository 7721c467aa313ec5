"""An offline model for the OpenAI Agents SDK."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any
from uuid import uuid4

from agents import Model, ModelResponse, Tool, Usage
from agents.items import TResponseInputItem, TResponseOutputItem, TResponseStreamEvent
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseUsage,
)
from openai.types.responses.response_usage import InputTokensDetails, OutputTokensDetails

from django_agent_sessions import transcripts

from . import rules


class OfflineOpenAIModel(Model):
    """Answers what the rules say, whole or as a stream.

    Args:
        answer: The rules.
    """

    def __init__(self, answer: rules.Rules = rules.concierge) -> None:
        self._answer = answer

    async def get_response(
        self,
        system_instructions: str | None,
        input: str | list[TResponseInputItem],  # noqa: A002 - the SDK's name
        model_settings: Any,
        tools: list[Tool],
        *args: Any,
        **kwargs: Any,
    ) -> ModelResponse:
        """Answers with one message or tool call.

        Args:
            system_instructions: Ignored.
            input: The conversation so far.
            model_settings: Ignored.
            tools: The tools there are.
            *args: Ignored.
            **kwargs: Ignored.

        Returns:
            The answer, with estimated usage.
        """
        items: Sequence[Any] = (
            [{"role": "user", "content": input}] if isinstance(input, str) else input
        )
        names = {tool.name for tool in tools}
        step = self._answer(rules.turns(transcripts.OPENAI, items), names)
        heard = rules.tokens(json.dumps(items, default=str))
        answered = rules.tokens(repr(step))
        usage = Usage(
            requests=1,
            input_tokens=heard,
            output_tokens=answered,
            total_tokens=heard + answered,
        )
        return ModelResponse(output=[_item(step)], usage=usage, response_id=None)

    async def stream_response(
        self, *args: Any, **kwargs: Any
    ) -> AsyncIterator[TResponseStreamEvent]:
        """Streams the event that completes an answer.

        Args:
            *args: Those of :meth:`get_response`.
            **kwargs: Those of :meth:`get_response`.

        Yields:
            The completed response.
        """
        answer = await self.get_response(*args, **kwargs)
        usage = answer.usage
        response = Response(
            id=f"resp_{uuid4().hex}",
            created_at=time.time(),
            model="offline",
            object="response",
            output=answer.output,
            parallel_tool_calls=False,
            tool_choice="auto",
            tools=[],
            usage=ResponseUsage(
                input_tokens=usage.input_tokens,
                input_tokens_details=InputTokensDetails(cached_tokens=0, cache_write_tokens=0),
                output_tokens=usage.output_tokens,
                output_tokens_details=OutputTokensDetails(reasoning_tokens=0),
                total_tokens=usage.total_tokens,
            ),
        )
        yield ResponseCompletedEvent(
            response=response, sequence_number=0, type="response.completed"
        )


def _item(step: str | rules.Call) -> TResponseOutputItem:
    if isinstance(step, rules.Call):
        return ResponseFunctionToolCall(
            arguments=json.dumps(step.arguments),
            call_id=f"call_{uuid4().hex}",
            name=step.tool,
            type="function_call",
        )
    return ResponseOutputMessage(
        id=f"msg_{uuid4().hex}",
        content=[ResponseOutputText(annotations=[], text=step, type="output_text")],
        role="assistant",
        status="completed",
        type="message",
    )
