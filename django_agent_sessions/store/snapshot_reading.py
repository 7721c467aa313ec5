"""Reading snapshots for an SDK's storage: the messages that they refer to, and the rest."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import Q

from django_agent_sessions import transcripts
from django_agent_sessions.exceptions import SessionConflictError
from django_agent_sessions.models import MAIN_BRANCH, SessionAgent, Snapshot
from django_agent_sessions.querysets import CONTENT_TEXT
from django_agent_sessions.records import AgentRecord

from .agents import AgentStore, agent_record, agent_without_state
from .base import repeatable
from .branches import BranchStore
from .documents import document_of
from .moments import LATEST, ranges
from .orchestrations import OrchestratorSnapshotStore
from .snapshot_records import LastRow, Loaded, spans_of

_MOST_RANGES = 20
_TRIES = 5


class SnapshotReader(BranchStore, OrchestratorSnapshotStore, AgentStore):
    """The part of the store that reads snapshots for an SDK's storage."""

    def last_row(self, agent: AgentRecord) -> LastRow | None:
        """Reads which message of a conversation is the last one."""
        rows = self._messages(agent).order_by("-message_id")
        found = rows.values_list("message_id", "pk", "revision").first()
        return None if found is None else LastRow(*found)

    @repeatable
    def load_snapshot(self, session_id: str, agent_id: str, snapshot_id: str) -> Loaded | None:
        """Reads a snapshot with its messages."""
        rows = self._named_snapshots(session_id).filter(
            agent__agent_id=agent_id, snapshot_id=snapshot_id
        )
        for _ in range(_TRIES):
            row = rows.select_related("session", "agent").first()
            if row is None or row.agent is None:
                return None
            agent = agent_without_state(row.agent)
            if snapshot_id == LATEST and self._was_gone_on_with(agent, row):
                return self._of_log(session_id, agent_id, row.revision)
            contents, redacted, tail = self._referred(
                agent.on_branch(row.branch), row.messages, row.length
            )
            revision = row.revision if snapshot_id == LATEST else None
            if snapshot_id != LATEST:
                latest = self._snapshots(agent).filter(snapshot_id=LATEST)
                revision = latest.values_list("revision", flat=True).first()
            last = self.last_row(agent)
            seen = (row.session.redaction_epoch, row.branch, row.revision)
            now = rows.values_list("session__redaction_epoch", "branch", "revision").first()
            if now != seen:
                continue
            if row.tail in (None, tail):
                break
            if snapshot_id == LATEST:
                return self._of_log(session_id, agent_id, row.revision)
            raise SessionConflictError(
                f"messages of snapshot {snapshot_id} of agent {agent_id!r} were taken away since"
            )
        else:
            raise SessionConflictError(f"session {session_id!r} changed each time it was read")
        return Loaded(
            session=row.session_id,
            epoch=row.session.redaction_epoch,
            agent=agent.id,
            revision=revision,
            last=last,
            branch=row.branch,
            messages=row.messages,
            document=row.document,
            contents=contents,
            redacted=frozenset(redacted),
        )

    @repeatable
    def load_log(self, session_id: str, agent_id: str) -> Loaded | None:
        """Makes a latest snapshot of an agent that has none, whose messages came from elsewhere."""
        return self._of_log(session_id, agent_id, None)

    def _was_gone_on_with(self, agent: AgentRecord, row: Snapshot) -> bool:
        """Tells whether a manager that writes message by message came after the latest snapshot."""
        if row.branch != MAIN_BRANCH:
            return False
        later = self._messages(agent).filter(message_id__gte=row.length, run_id__isnull=False)
        return later.exists()

    def _is_log(self, row: SessionAgent, agent: AgentRecord) -> bool:
        """Tells whether the messages of an agent without a latest snapshot came from elsewhere.

        A fork and an import say so; a manager that writes message by message names its runs.
        """
        if row.session.origin is not None:
            return True
        last = self._messages(agent).order_by("-message_id")
        return last.values_list("run_id", flat=True).first() is not None

    def _of_log(self, session_id: str, agent_id: str, revision: int | None) -> Loaded | None:
        """Makes a latest snapshot of an agent as the log of its messages has it."""
        agents = self._agents().filter(
            session__in=self._reachable().named(self.namespace, session_id),
            agent_id=agent_id,
            dialect=transcripts.STRANDS,
        )
        for _ in range(_TRIES):
            row = agents.select_related("session").first()
            if row is None:
                return None
            agent = agent_without_state(row)
            if revision is None and not self._is_log(row, agent):
                return None
            last = self.last_row(agent)
            end = 0 if last is None else last.position + 1
            data = agent_record(row).data
            if not end and not data.state and not data.conversation_manager_state:
                return None
            messages = [
                [first, min(stop, end)] for first, stop in ranges(data.window, end) if first < end
            ]
            contents, redacted, _ = self._referred(agent, messages, end)
            epochs = agents.values_list("session__redaction_epoch", flat=True)
            if epochs.first() == row.session.redaction_epoch:
                break
        else:
            raise SessionConflictError(f"session {session_id!r} changed each time it was read")
        return Loaded(
            session=row.session_id,
            epoch=row.session.redaction_epoch,
            agent=agent.id,
            revision=revision,
            last=last,
            branch=MAIN_BRANCH,
            messages=messages,
            document=document_of(data, row.updated_at),
            contents=contents,
            redacted=frozenset(redacted),
        )

    def _referred(
        self, agent: AgentRecord, messages: list[Any], length: int
    ) -> tuple[dict[int, Any], set[int], UUID | None]:
        """What the messages say, which of them were redacted, and the key of the last one."""
        wanted = spans_of(messages)
        if not wanted:
            return {}, set(), None
        if len(wanted) > _MOST_RANGES:
            wanted = [[min(a for a, _ in wanted), max(b for _, b in wanted)]]
        condition = Q()
        for first, stop in wanted:
            condition |= Q(message_id__gte=first, message_id__lt=stop)
        rows = self._messages(agent).filter(condition)
        columns = ("message_id", CONTENT_TEXT, "redacted_at", "pk")
        found = self._contents(agent, rows.values_list(*columns))
        contents = {row[0]: payload for row, payload in found}
        tail = next((row[3] for row, _ in reversed(found) if row[0] == length - 1), None)
        return contents, {row[0] for row, _ in found if row[2] is not None}, tail
