"""A model for the OpenAI Agents SDK that says what a script tells it, without a network."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any
from uuid import uuid4

from agents import Model, ModelResponse, TResponseInputItem, Usage, set_tracing_disabled
from agents.items import TResponseOutputItem, TResponseStreamEvent
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseTextDeltaEvent,
    ResponseUsage,
)
from openai.types.responses.response_usage import InputTokensDetails, OutputTokensDetails
from pydantic import BaseModel

# The SDK would send its traces over the network.
set_tracing_disabled(True)


def call(tool: str, **arguments: Any) -> ResponseFunctionToolCall:
    """A step in which the model calls a tool."""
    return ResponseFunctionToolCall(
        type="function_call",
        id=f"fc_{uuid4().hex}",
        call_id=f"call_{uuid4().hex}",
        name=tool,
        arguments=json.dumps(arguments),
    )


def hand_over(agent: str) -> ResponseFunctionToolCall:
    """A step in which the model hands the conversation over to another agent."""
    return call(f"transfer_to_{agent.lower()}")


Step = str | TResponseOutputItem | Sequence[TResponseOutputItem] | Exception
"""A text to say, an item or several of them, or an exception to raise."""


class ScriptedModel(Model):
    """Plays steps; then echoes the last text it was given.

    Attributes:
        requests: The input of each call.
        delay: Seconds that each call takes.
        reports: Whether it reports its usage, 10 tokens read and 5 written for each call.
    """

    def __init__(
        self, steps: Sequence[Step] = (), *, delay: float = 0, reports: bool = True
    ) -> None:
        self.steps = list(steps)
        self.reports = reports
        self.requests: list[list[TResponseInputItem]] = []
        self.delay = delay

    async def get_response(
        self,
        system_instructions: str | None,
        input: str | list[TResponseInputItem],  # noqa: A002 - the SDK's name
        *args: Any,
        **kwargs: Any,
    ) -> ModelResponse:
        output = await self._play(input)
        return ModelResponse(
            output=output,
            usage=Usage(requests=1, input_tokens=10, output_tokens=5, total_tokens=15)
            if self.reports
            else Usage(),
            response_id=f"resp_{uuid4().hex}",
        )

    async def stream_response(
        self,
        system_instructions: str | None,
        input: str | list[TResponseInputItem],  # noqa: A002 - the SDK's name
        *args: Any,
        **kwargs: Any,
    ) -> AsyncIterator[TResponseStreamEvent]:
        output = await self._play(input)
        number = 0
        for index, item in enumerate(output):
            if isinstance(item, ResponseOutputMessage):
                for word in _text(item).split():
                    yield _delta(word, item.id, index, number)
                    number += 1
        yield ResponseCompletedEvent(
            type="response.completed", response=_response(output), sequence_number=number
        )

    async def _play(self, given: str | list[TResponseInputItem]) -> list[TResponseOutputItem]:
        items: Any = [{"role": "user", "content": given}] if isinstance(given, str) else given
        self.requests.append(list(items))
        await asyncio.sleep(self.delay)
        step = self.steps.pop(0) if self.steps else f"You said: {_last_text(items)}"
        if isinstance(step, Exception):
            raise step
        if isinstance(step, str):
            return [_message(step)]
        return [step] if isinstance(step, BaseModel) else list(step)


def _message(text: str) -> ResponseOutputMessage:
    return ResponseOutputMessage(
        id=f"msg_{uuid4().hex}",
        type="message",
        role="assistant",
        status="completed",
        content=[ResponseOutputText(type="output_text", text=text, annotations=[])],
    )


def _text(message: ResponseOutputMessage) -> str:
    return "".join(part.text for part in message.content if part.type == "output_text")


def _delta(word: str, item_id: str, index: int, number: int) -> ResponseTextDeltaEvent:
    return ResponseTextDeltaEvent(
        type="response.output_text.delta",
        delta=word,
        item_id=item_id,
        output_index=index,
        content_index=0,
        logprobs=[],
        sequence_number=number,
    )


def _response(output: list[TResponseOutputItem]) -> Response:
    return Response(
        id=f"resp_{uuid4().hex}",
        created_at=time.time(),
        model="scripted",
        object="response",
        output=output,
        parallel_tool_calls=True,
        tool_choice="auto",
        tools=[],
        usage=ResponseUsage(
            input_tokens=10,
            input_tokens_details=InputTokensDetails(cached_tokens=0, cache_write_tokens=0),
            output_tokens=5,
            output_tokens_details=OutputTokensDetails(reasoning_tokens=0),
            total_tokens=15,
        ),
    )


def _last_text(items: Sequence[Any]) -> str:
    for item in reversed(items):
        content = item.get("content")
        if item.get("role") == "user" and isinstance(content, str):
            return content
    return ""
