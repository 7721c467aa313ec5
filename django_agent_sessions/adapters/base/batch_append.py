"""The append of a conversation, in one commit with others."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django_agent_sessions.store import GroupedAppend, with_ids
from django_agent_sessions.values.records import Append, NewMessage, Usage, Written

if TYPE_CHECKING:
    from .conversation import ConversationSession


class BatchAppend(GroupedAppend[list[Any]]):
    """The append of a batch to a conversation that the object knows."""

    def __init__(
        self,
        session: ConversationSession,
        batch: Sequence[Any],
        run_id: UUID | None,
        spent: tuple[int, Usage] | None,
    ) -> None:
        self._session, self._batch = session, batch
        self._run_id, self._spent = run_id, spent
        self._clean: list[NewMessage] = []
        self._unsure = False

    def make(self) -> Append | None:
        agent = self._session.recall()
        if agent is None:
            return None
        self._clean = with_ids(self._session.clean_batch(agent, self._batch, self._spent))
        return Append(agent, self._clean, self._run_id, epoch=self._session.memory.epoch)

    def finish(self, written: Written) -> list[Any]:
        return self._session.record_appended(written)

    def leave(self, unsure: bool) -> None:
        self._unsure = unsure

    def alone(self) -> list[Any]:
        if not self._unsure:
            return self._session.append(self._batch, self._run_id, self._spent)
        append = partial(
            self._session.append_to,
            self._batch,
            self._run_id,
            spent=self._spent,
            earlier=self._clean,
        )
        return self._session.write(append, self._batch, self._run_id, self._spent)
