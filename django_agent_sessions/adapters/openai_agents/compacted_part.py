"""The part of a conversation that a compaction replaces; functions for a database thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django_agent_sessions.adapters.base import ConversationSession
from django_agent_sessions.values.records import AgentRecord, MessageRecord, PositionedPayload

from .compaction import is_user_message
from .model_exchange import count_seen
from .model_history import items_for_model, open_calls
from .run_states import awaited_calls


@dataclass(frozen=True)
class ReadPart:
    """What a run read of a conversation at its beginning: the items from ``first`` to ``end``."""

    branch: int
    first: int
    end: int
    epoch: int | None


def part_read(
    session: ConversationSession, agent: AgentRecord, found: Sequence[PositionedPayload]
) -> ReadPart:
    """Return what a run has read."""
    first, end = (found[0].position, found[-1].position + 1) if found else (0, 0)
    return ReadPart(agent.branch, first, end, session.memory.known.epoch)


@dataclass(frozen=True)
class ConversationPart:
    """The last items of a branch, and what must not change until they are replaced.

    ``epoch`` is the redaction epoch before they were read, ``awaited`` has the ids of the calls
    that a stored run waits for, and ``was_seen`` is whether the model has seen exactly these items
    in its last request.
    """

    agent: AgentRecord
    records: tuple[MessageRecord, ...]
    epoch: int
    is_complete: bool
    awaited: frozenset[str] = frozenset()
    was_seen: bool = False

    @property
    def items(self) -> list[Any]:
        """The items as a model reads them."""
        return [record.content for record in self.records]

    def latest(self, count: int | None) -> list[Any]:
        """Return the items that a run reads with a limit."""
        return self.items if count is None else self.items[-count:] if count > 0 else []

    def sent(self) -> dict[int, Any]:
        """Return the items as they are sent to a model, by their indexes; no abandoned calls."""
        placed = [
            PositionedPayload(record.message_id, record.content, record.redact_message is not None)
            for record in self.records
        ]
        return items_for_model(placed, without=open_calls(self.items))

    def has_waiting_call(self) -> bool:
        """Return whether a call may still get its result, or a person's approval.

        That is one of the last turn, or of a stored run. Others were abandoned, such as by a
        process that was killed.
        """
        last = max((i for i, item in enumerate(self.items) if is_user_message(item)), default=-1)
        return any(
            index > last or link.call_id in self.awaited
            for index, link in open_calls(self.items).items()
        )

    def seen_in(self, digests: Sequence[str]) -> ConversationPart | None:
        """Return the last items that a model has seen; None if it has not seen the last one."""
        sent = self.sent()
        count = count_seen([*sent.values()], digests)
        if count == len(sent):
            return self
        return self._from([*sent][-count]) if count else None

    def from_user_message(self) -> ConversationPart | None:
        """Return the part from the first message of the user on; None if there is none.

        What follows a model's item, such as its reasoning, is then not separated from it.
        """
        for index, item in enumerate(self.items):
            if is_user_message(item):
                return self._from(index)
        return None

    def _from(self, index: int) -> ConversationPart:
        records = self.records[index:]
        return replace(
            self, records=records, was_seen=False, is_complete=self.is_complete and not index
        )


def read_part(
    session: ConversationSession,
    limit: int | None,
    read: ReadPart | None = None,
    run_id: UUID | None = None,
) -> ConversationPart | None:
    """Read the part that a run has read and written, or the latest items; None if it is empty."""

    def read_from(agent: AgentRecord) -> ConversationPart | None:
        branch = session.branch_of(agent)
        if branch is None:
            return None
        messages = session.store.messages
        # Before the items: a redaction after this one is then noticed.
        epoch = session.store.get(session.session_id).redaction_epoch
        known = (
            read
            if read is not None
            and (read.branch, read.epoch)
            == (
                branch.branch,
                epoch,
            )
            else None
        )
        count = limit
        if known is not None:
            last = messages.latest(branch, 1)
            count = last[0].message_id + 1 - known.first if last else 0
        records = messages.list(branch) if count is None else messages.latest(branch, count)
        if known is not None:
            records = [record for record in records if record.message_id >= known.first]
        if not records:
            return None
        was_seen = known is not None and all(
            record.message_id < known.end or (run_id is not None and record.run_id == run_id)
            for record in records
        )
        is_complete = records[0].message_id == 0
        awaited = awaited_calls(session)
        return ConversationPart(branch, tuple(records), epoch, is_complete, awaited, was_seen)

    return session.on_conversation(read_from)


def replace_part(
    session: ConversationSession,
    part: ConversationPart,
    summary: Sequence[Any],
    *,
    keep_history: bool,
) -> None:
    """Replace a part with a summary, if neither has changed since it was read."""
    written = session.store.branches.compact(
        part.agent,
        summary,
        [record.id for record in part.records],
        epoch=part.epoch,
        keep_history=keep_history,
    )
    if session.memory.known.epoch == part.epoch:
        # Nothing was redacted, so that the next write need not read everything again.
        session.memory.change(epoch=written.epoch)
