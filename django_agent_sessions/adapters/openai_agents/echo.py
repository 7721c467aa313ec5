"""A model for tests and first steps, without a network or a key."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

from agents import Model, ModelResponse, Usage
from agents.items import TResponseInputItem, TResponseStreamEvent
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseTextDeltaEvent,
    ResponseUsage,
)
from openai.types.responses.response_usage import InputTokensDetails, OutputTokensDetails

from django_agent_sessions.adapters.base import texts_only
from django_agent_sessions.content import dialects


class EchoModel(Model):
    """A model of the OpenAI Agents SDK that answers ``You said: …`` with the user's last text.

    Args:
        *answers: The first answers, one text for each call. It calls no tools.

    Raises:
        TypeError: An answer is no text.
    """

    def __init__(self, *answers: str) -> None:
        self._answers = texts_only(answers)

    async def get_response(
        self,
        system_instructions: str | None,
        input: str | list[TResponseInputItem],  # noqa: A002 - the SDK's name
        *args: Any,
        **kwargs: Any,
    ) -> ModelResponse:
        """Return the answer."""
        answer = self._answers.pop(0) if self._answers else f"You said: {_said(input)}"
        message = ResponseOutputMessage(
            id=f"msg_{uuid4().hex}",
            type="message",
            role="assistant",
            status="completed",
            content=[ResponseOutputText(type="output_text", text=answer, annotations=[])],
        )
        heard, said = len(str(input)) // 4 + 1, len(answer) // 4 + 1
        usage = Usage(requests=1, input_tokens=heard, output_tokens=said, total_tokens=heard + said)
        return ModelResponse(output=[message], usage=usage, response_id=None)

    async def stream_response(
        self, *args: Any, **kwargs: Any
    ) -> AsyncIterator[TResponseStreamEvent]:
        """Yield the events of the answer, word by word."""
        answer = await self.get_response(*args, **kwargs)
        message: Any = answer.output[0]
        words = re.findall(r"\S+\s*|\s+", message.content[0].text)
        for number, word in enumerate(words):
            yield ResponseTextDeltaEvent(
                type="response.output_text.delta",
                delta=word,
                item_id=message.id,
                output_index=0,
                content_index=0,
                logprobs=[],
                sequence_number=number,
            )
        response = Response(
            id=f"resp_{uuid4().hex}",
            created_at=time.time(),
            model="echo",
            object="response",
            output=answer.output,
            parallel_tool_calls=False,
            tool_choice="auto",
            tools=[],
            status="completed",
            usage=_response_usage(answer.usage),
        )
        yield ResponseCompletedEvent(
            type="response.completed", response=response, sequence_number=len(words)
        )


def _response_usage(usage: Usage) -> ResponseUsage:
    return ResponseUsage(
        input_tokens=usage.input_tokens,
        input_tokens_details=InputTokensDetails(cached_tokens=0, cache_write_tokens=0),
        output_tokens=usage.output_tokens,
        output_tokens_details=OutputTokensDetails(reasoning_tokens=0),
        total_tokens=usage.total_tokens,
    )


def _said(given: str | list[TResponseInputItem]) -> str:
    if isinstance(given, str):
        return given
    items: list[Any] = list(reversed(given))
    dialect = dialects.get(dialects.OPENAI)
    users = (dialect.summary(each).text for each in items if each.get("role") == "user")
    return next(filter(None, users), "")
