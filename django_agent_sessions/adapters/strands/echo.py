"""A model for tests and first steps, without a network or a key."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any, NoReturn

from strands.models.model import Model
from strands.types.content import Messages
from strands.types.streaming import StreamEvent

from django_agent_sessions.adapters.base import texts_only
from django_agent_sessions.content import dialects


class EchoModel(Model):
    """A Strands model that answers ``You said: …`` with the user's last text.

    Args:
        *answers: The first answers, one text for each call. It calls no tools.

    Raises:
        TypeError: An answer is no text.
    """

    def __init__(self, *answers: str) -> None:
        self._answers = texts_only(answers)

    def update_config(self, **model_config: Any) -> None:
        """Ignore the configuration."""

    def get_config(self) -> dict[str, Any]:
        """Return the name of the model."""
        return {"model_id": "echo"}

    def structured_output(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise ``NotImplementedError``."""
        raise NotImplementedError("EchoModel has no structured output")

    async def stream(
        self, messages: Messages, *args: Any, **kwargs: Any
    ) -> AsyncIterator[StreamEvent]:
        """Yield the events of the answer, word by word."""
        answer = self._answers.pop(0) if self._answers else f"You said: {_said(messages)}"
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": {}}}
        for word in re.findall(r"\S+\s*|\s+", answer):
            yield {"contentBlockDelta": {"delta": {"text": word}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn"}}
        heard, said = len(str(messages)) // 4 + 1, len(answer) // 4 + 1
        yield {
            "metadata": {
                "usage": {
                    "inputTokens": heard,
                    "outputTokens": said,
                    "totalTokens": heard + said,
                },
                "metrics": {"latencyMs": 1},
            }
        }


def _said(messages: Messages) -> str:
    dialect = dialects.get(dialects.STRANDS)
    users = (dialect.summary(each).text for each in reversed(messages) if each["role"] == "user")
    return next(filter(None, users), "")
