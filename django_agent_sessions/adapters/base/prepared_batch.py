"""Messages that are about to be appended to a conversation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from django_agent_sessions.values.records import NewMessage, Usage


class PreparedBatch(NamedTuple):
    """Messages to append, and what is recorded with them."""

    messages: Sequence[Any]
    spent: tuple[int, Usage] | None = None
    """The usage of a model's call, and the index of the message that it wrote."""

    question: tuple[int, str] | None = None
    """A client's id of the user's message, and the message's index."""

    def describe(self, messages: Sequence[Any], model: str) -> list[Any]:
        """Return the messages, as they are written, with what is recorded with them."""
        described = list(messages)
        details: dict[int, dict[str, Any]] = {}
        if self.spent is not None:
            details[self.spent[0]] = {"usage": self.spent[1], "model": model}
        if self.question is not None:
            details.setdefault(self.question[0], {})["external_id"] = self.question[1]
        # The key of each is made here, too, because keys have the order of the messages.
        for index in range(max(details, default=-1) + 1):
            described[index] = NewMessage(described[index], **details.get(index, {}))
        return described
