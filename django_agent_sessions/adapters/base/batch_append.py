"""The append of a conversation, in one commit with others."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from django_agent_sessions.store import GroupedAppend, with_ids
from django_agent_sessions.values.records import Append, NewMessage, Usage, Written

if TYPE_CHECKING:
    from .conversation import ConversationSession


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


class BatchAppend(GroupedAppend[list[Any]]):
    """The append of a batch to a conversation that the object knows."""

    def __init__(
        self,
        session: ConversationSession,
        batch: PreparedBatch,
        run_id: UUID | None,
    ) -> None:
        self._session, self._batch, self._run_id = session, batch, run_id
        self._clean: list[NewMessage] = []
        self._unsure = False

    def make(self) -> Append | None:
        agent = self._session.recall()
        if agent is None or not self._batch.messages:
            return None
        self._clean = with_ids(self._session.clean_batch(agent, self._batch))
        return Append(agent, self._clean, self._run_id, epoch=self._session.memory.state.epoch)

    def finish(self, written: Written) -> list[Any]:
        return self._session.record_appended(written)

    def leave(self, unsure: bool) -> None:
        self._unsure = unsure

    def alone(self) -> list[Any]:
        if not self._unsure:
            return self._session.append_prepared(self._batch, self._run_id)
        append = partial(self._session.append_to, self._batch, self._run_id, earlier=self._clean)
        return self._session.write(append, self._batch, self._run_id)
