"""A model for Strands that says what a script tells it, without a network."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Sequence
from typing import Any
from uuid import uuid4

from strands.models.model import Model
from strands.types.exceptions import ContextWindowOverflowException

USAGE = {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15}


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    """A step in which the model calls a tool."""
    return {"name": tool, "input": arguments, "toolUseId": f"call-{uuid4().hex[:12]}"}


class Redact(str):
    """A step in which a guardrail blocks the user's message; the text stands in its place."""


class Overflow:
    """A step in which the conversation is too long for the model."""


Step = Any
"""A text to say, a :func:`call` or a list of them, a Redact, an Overflow, or an exception."""


class ScriptedModel(Model):
    """Plays steps; then echoes the last text it was given.

    Attributes:
        requests: The messages of each call, as they were at that moment.
        delay: Seconds that each call takes.
        limit: Tokens of its context window.
    """

    def __init__(
        self,
        steps: Sequence[Step] = (),
        *,
        delay: float = 0,
        choose: Callable[[Any], Step] | None = None,
        stateful: bool = False,
        limit: int | None = None,
    ) -> None:
        self.steps = list(steps)
        self.requests: list[list[Any]] = []
        self.delay = delay
        self._choose = choose
        self._stateful = stateful
        self._limit = limit

    @property
    def stateful(self) -> bool:
        return self._stateful

    def update_config(self, **model_config: Any) -> None:
        """There is nothing to configure."""

    def get_config(self) -> dict[str, Any]:
        limit = {} if self._limit is None else {"context_window_limit": self._limit}
        return {"model_id": "scripted", **limit}

    def structured_output(self, *args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
        raise NotImplementedError("a script has no structured output")

    async def stream(self, messages: Any, *args: Any, **kwargs: Any) -> AsyncGenerator[Any]:
        self.requests.append([{"role": m["role"], "content": list(m["content"])} for m in messages])
        if self.delay:
            await asyncio.sleep(self.delay)
        if self._choose is not None:
            step = self._choose(messages)
        else:
            step = self.steps.pop(0) if self.steps else f"You said: {_last_text(messages)}"
        if isinstance(step, BaseException):
            raise step
        if isinstance(step, Overflow):
            raise ContextWindowOverflowException("too long")
        async for event in _events(step):
            yield event


async def _events(step: Step) -> AsyncIterable[dict[str, Any]]:
    yield {"messageStart": {"role": "assistant"}}
    if isinstance(step, Redact):
        yield {"redactContent": {"redactUserContentMessage": str(step)}}
        step = "I cannot talk about that."
    if isinstance(step, str):
        yield {"contentBlockStart": {"start": {}}}
        yield {"contentBlockDelta": {"delta": {"text": step}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn"}}
    else:
        for use in step if isinstance(step, list) else [step]:
            start = {"toolUse": {"name": use["name"], "toolUseId": use["toolUseId"]}}
            yield {"contentBlockStart": {"start": start}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(use["input"])}}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use"}}
    yield {"metadata": {"usage": USAGE, "metrics": {"latencyMs": 7}}}


def _last_text(messages: Any) -> str:
    for message in reversed(messages):
        for block in reversed(message["content"]):
            if "text" in block:
                return str(block["text"])
    return ""
