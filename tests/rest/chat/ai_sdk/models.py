"""Models of both SDKs that play the scripts, as streams of their own events."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any
from uuid import uuid4

import agents
import strands
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionCallArgumentsDeltaEvent,
    ResponseFunctionToolCall,
    ResponseOutputItemAddedEvent,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseReasoningItem,
    ResponseReasoningSummaryTextDeltaEvent,
    ResponseTextDeltaEvent,
)
from openai.types.responses.response_reasoning_item import Summary
from strands.models.model import Model

from .scripts import Call, FailureError, Gate, Step, Text, Thought, play, wait_at

agents.set_tracing_disabled(True)


class StrandsModel(Model):
    """Streams a script."""

    def update_config(self, **model_config: Any) -> None:
        """There is nothing to configure."""

    def get_config(self) -> dict[str, Any]:
        return {"model_id": "scripted"}

    def structured_output(self, *args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
        raise NotImplementedError

    async def stream(self, messages: Any, *args: Any, **kwargs: Any) -> AsyncGenerator[Any]:
        yield {"messageStart": {"role": "assistant"}}
        stop, opened = "end_turn", False
        for step in play("strands", messages):
            if isinstance(step, Gate):
                await step.passed()
                continue
            if isinstance(step, FailureError):
                raise step
            if isinstance(step, Call):
                if opened:
                    yield {"contentBlockStop": {}}
                    opened = False
                stop = "tool_use"
                use = {"name": step.write_tool_call, "toolUseId": f"use-{uuid4().hex}"}
                yield {"contentBlockStart": {"start": {"toolUse": use}}}
                for piece in _halves(json.dumps(step.arguments)):
                    yield {"contentBlockDelta": {"delta": {"toolUse": {"input": piece}}}}
                yield {"contentBlockStop": {}}
            elif isinstance(step, Thought):
                yield {"contentBlockStart": {"start": {}}}
                for delta in step.deltas:
                    thought = {"reasoningContent": {"text": delta}}
                    yield {"contentBlockDelta": {"delta": thought}}
                yield {"contentBlockStop": {}}
            else:
                if not opened:
                    yield {"contentBlockStart": {"start": {}}}
                    opened = True
                for delta in step.deltas:
                    yield {"contentBlockDelta": {"delta": {"text": delta}}}
        if opened:
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": stop}}
        usage = {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15}
        yield {"metadata": {"usage": usage, "metrics": {"latencyMs": 7}}}


class OpenAIModel(agents.Model):
    """Streams a script; ``is_complete`` is for a model that delivers no deltas."""

    def __init__(self, *, whole: bool = False) -> None:
        self.is_complete = whole

    async def get_response(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    async def stream_response(
        self,
        system_instructions: str | None,
        input: Any,  # noqa: A002 - the SDK's name
        *args: Any,
        **kwargs: Any,
    ) -> AsyncIterator[Any]:
        items = [{"role": "user", "content": input}] if isinstance(input, str) else input
        output: list[Any] = []
        text = ""
        for step in [*play("openai", items), None]:
            if isinstance(step, Text):
                text += "".join(step.deltas)
            elif text and not isinstance(step, Gate):
                output.append(_message(text))
                text = ""
            if isinstance(step, Gate):
                await step.passed()
            elif isinstance(step, FailureError):
                raise step
            elif isinstance(step, Call):
                output.append(_call(step))
            elif isinstance(step, Thought):
                output.append(_reasoning(step))
            if not self.is_complete and step is not None:
                place = len(output) if isinstance(step, Text | Gate) else len(output) - 1
                for event in _events(step, output, place):
                    yield event
        yield ResponseCompletedEvent(
            type="response.completed", response=_response(output), sequence_number=0
        )


def _events(step: Step, output: list[Any], place: int) -> list[Any]:
    where: dict[str, Any] = {"item_id": "item", "output_index": place, "sequence_number": 0}
    if isinstance(step, Text):
        return [
            ResponseTextDeltaEvent(
                type="response.output_text.delta",
                delta=delta,
                content_index=0,
                logprobs=[],
                **where,
            )
            for delta in step.deltas
        ]
    if isinstance(step, Thought):
        return [
            ResponseReasoningSummaryTextDeltaEvent(
                type="response.reasoning_summary_text.delta",
                delta=delta,
                summary_index=0,
                **where,
            )
            for delta in step.deltas
        ]
    if isinstance(step, Call):
        added = ResponseOutputItemAddedEvent(
            type="response.output_item.added",
            item=output[place],
            output_index=place,
            sequence_number=0,
        )
        return [
            added,
            *(
                ResponseFunctionCallArgumentsDeltaEvent(
                    type="response.function_call_arguments.delta", delta=piece, **where
                )
                for piece in _halves(output[place].arguments)
            ),
        ]
    return []


def _halves(text: str) -> list[str]:
    return [text[: len(text) // 2], text[len(text) // 2 :]]


def _message(text: str) -> ResponseOutputMessage:
    return ResponseOutputMessage(
        id=f"msg-{uuid4().hex}",
        type="message",
        role="assistant",
        status="completed",
        content=[ResponseOutputText(type="output_text", text=text, annotations=[])],
    )


def _call(step: Call) -> ResponseFunctionToolCall:
    return ResponseFunctionToolCall(
        type="function_call",
        id=f"fc-{uuid4().hex}",
        call_id=f"call-{uuid4().hex}",
        name=step.write_tool_call,
        arguments=json.dumps(step.arguments),
    )


def _reasoning(step: Thought) -> ResponseReasoningItem:
    return ResponseReasoningItem(
        type="reasoning",
        id=f"rs-{uuid4().hex}",
        summary=[Summary(type="summary_text", text="".join(step.deltas))],
    )


def _response(output: list[Any]) -> Response:
    return Response(
        id=f"resp-{uuid4().hex}",
        created_at=time.time(),
        model="scripted",
        object="response",
        output=output,
        parallel_tool_calls=True,
        tool_choice="auto",
        tools=[],
    )


async def slow(gate: str) -> str:
    """Waits at a gate."""
    await wait_at(gate)
    return "It opened."


def broken() -> str:
    """Does not work."""
    raise ValueError("no way")


STRANDS_TOOLS: list[Any] = [strands.tool(slow), strands.tool(broken)]
OPENAI_TOOLS: list[Any] = [agents.function_tool(slow), agents.function_tool(broken)]

__all__ = ["OPENAI_TOOLS", "STRANDS_TOOLS", "OpenAIModel", "StrandsModel"]
