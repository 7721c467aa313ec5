"""An offline model for the OpenAI Agents SDK."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import count
from typing import Any
from uuid import uuid4

from agents import Model, ModelResponse, Tool, Usage
from agents.items import TResponseInputItem, TResponseOutputItem, TResponseStreamEvent
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseContentPartAddedEvent,
    ResponseContentPartDoneEvent,
    ResponseCreatedEvent,
    ResponseFunctionCallArgumentsDeltaEvent,
    ResponseFunctionCallArgumentsDoneEvent,
    ResponseFunctionToolCall,
    ResponseOutputItemAddedEvent,
    ResponseOutputItemDoneEvent,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseReasoningItem,
    ResponseReasoningSummaryTextDeltaEvent,
    ResponseTextDeltaEvent,
    ResponseTextDoneEvent,
    ResponseUsage,
)
from openai.types.responses.response_reasoning_item import Summary
from openai.types.responses.response_usage import InputTokensDetails, OutputTokensDetails

from django_agent_sessions.content import dialects

from . import pace, rules


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
        """Answers with one message or tool call, perhaps after a thought.

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
        step = self._answer(rules.turns(dialects.OPENAI, items), names)
        heard = rules.tokens(json.dumps(items, default=str))
        answered = rules.tokens(repr(step))
        usage = Usage(
            requests=1,
            input_tokens=heard,
            output_tokens=answered,
            total_tokens=heard + answered,
        )
        return ModelResponse(output=_items(step), usage=usage, response_id=None)

    async def stream_response(
        self, *args: Any, **kwargs: Any
    ) -> AsyncIterator[TResponseStreamEvent]:
        """Streams an answer as the Responses API does.

        Args:
            *args: Those of :meth:`get_response`.
            **kwargs: Those of :meth:`get_response`.

        Yields:
            The item as it grows, then the completed response.
        """
        answer = await self.get_response(*args, **kwargs)
        await pace.first()
        response = _response(answer.usage)
        number = count()
        yield ResponseCreatedEvent(
            response=response, sequence_number=next(number), type="response.created"
        )
        for index, item in enumerate(answer.output):
            async for event in _events(item, index, number):
                yield event
        completed = response.model_copy(update={"output": answer.output, "status": "completed"})
        yield ResponseCompletedEvent(
            response=completed, sequence_number=next(number), type="response.completed"
        )


async def _events(
    item: TResponseOutputItem, index: int, number: Iterator[int]
) -> AsyncIterator[TResponseStreamEvent]:
    """The events of one item: that it begins, what it says word by word, that it is done."""
    if isinstance(item, ResponseOutputMessage):
        begun: TResponseOutputItem = item.model_copy(
            update={"content": [], "status": "in_progress"}
        )
    elif isinstance(item, ResponseReasoningItem):
        begun = item.model_copy(update={"summary": []})
    else:
        begun = item
    yield ResponseOutputItemAddedEvent(
        item=begun,
        output_index=index,
        sequence_number=next(number),
        type="response.output_item.added",
    )
    if isinstance(item, ResponseOutputMessage):
        for place, content in enumerate(item.content):
            if isinstance(content, ResponseOutputText):
                async for event in _text_events(item.id, content, index, place, number):
                    yield event
    elif isinstance(item, ResponseReasoningItem):
        for place, thought in enumerate(item.summary):
            async for word in pace.words(thought.text):
                yield ResponseReasoningSummaryTextDeltaEvent(
                    delta=word,
                    item_id=item.id,
                    output_index=index,
                    sequence_number=next(number),
                    summary_index=place,
                    type="response.reasoning_summary_text.delta",
                )
    elif isinstance(item, ResponseFunctionToolCall):
        yield ResponseFunctionCallArgumentsDeltaEvent(
            delta=item.arguments,
            item_id=item.id or "",
            output_index=index,
            sequence_number=next(number),
            type="response.function_call_arguments.delta",
        )
        yield ResponseFunctionCallArgumentsDoneEvent(
            arguments=item.arguments,
            item_id=item.id or "",
            output_index=index,
            sequence_number=next(number),
            type="response.function_call_arguments.done",
        )
    yield ResponseOutputItemDoneEvent(
        item=item,
        output_index=index,
        sequence_number=next(number),
        type="response.output_item.done",
    )


async def _text_events(
    item_id: str, content: ResponseOutputText, index: int, place: int, number: Iterator[int]
) -> AsyncIterator[TResponseStreamEvent]:
    where: dict[str, Any] = {"item_id": item_id, "output_index": index, "content_index": place}
    yield ResponseContentPartAddedEvent(
        part=content.model_copy(update={"text": ""}),
        sequence_number=next(number),
        type="response.content_part.added",
        **where,
    )
    async for word in pace.words(content.text):
        yield ResponseTextDeltaEvent(
            delta=word,
            logprobs=[],
            sequence_number=next(number),
            type="response.output_text.delta",
            **where,
        )
    yield ResponseTextDoneEvent(
        text=content.text,
        logprobs=[],
        sequence_number=next(number),
        type="response.output_text.done",
        **where,
    )
    yield ResponseContentPartDoneEvent(
        part=content, sequence_number=next(number), type="response.content_part.done", **where
    )


def _response(usage: Usage) -> Response:
    """A response that has no output yet."""
    return Response(
        id=f"resp_{uuid4().hex}",
        created_at=time.time(),
        model="offline",
        object="response",
        output=[],
        parallel_tool_calls=False,
        tool_choice="auto",
        tools=[],
        status="in_progress",
        usage=ResponseUsage(
            input_tokens=usage.input_tokens,
            input_tokens_details=InputTokensDetails(cached_tokens=0, cache_write_tokens=0),
            output_tokens=usage.output_tokens,
            output_tokens_details=OutputTokensDetails(reasoning_tokens=0),
            total_tokens=usage.total_tokens,
        ),
    )


def _items(step: rules.Step) -> list[TResponseOutputItem]:
    if isinstance(step, rules.Considered):
        summary = Summary(text=step.thought, type="summary_text")
        thought = ResponseReasoningItem(id=f"rs_{uuid4().hex}", summary=[summary], type="reasoning")
        return [thought, _item(step.text)]
    return [_item(step)]


def _item(step: str | rules.Call) -> TResponseOutputItem:
    if isinstance(step, rules.Call):
        return ResponseFunctionToolCall(
            arguments=json.dumps(step.arguments),
            id=f"fc_{uuid4().hex}",
            call_id=f"call_{uuid4().hex}",
            name=step.write_tool_call,
            type="function_call",
        )
    return ResponseOutputMessage(
        id=f"msg_{uuid4().hex}",
        content=[ResponseOutputText(annotations=[], text=step, type="output_text")],
        role="assistant",
        status="completed",
        type="message",
    )
