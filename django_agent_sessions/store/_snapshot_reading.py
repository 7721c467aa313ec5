"""Read snapshots for an SDK's storage: the document and the referenced messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias
from uuid import UUID

from django.db.models import Q, QuerySet

from django_agent_sessions.content import dialects
from django_agent_sessions.content.message_references import held_by, referenced_ranges
from django_agent_sessions.db.retries import retry_reads
from django_agent_sessions.exceptions import SessionConflictError
from django_agent_sessions.models import MAIN_BRANCH, SessionAgent, Snapshot
from django_agent_sessions.models.stored_text import PAYLOAD_TEXT
from django_agent_sessions.values.message_version import MessageVersion
from django_agent_sessions.values.records import AgentRecord

from ._agent_rows import agent_record, agent_without_state
from ._agent_states import LATEST_SNAPSHOT_ID
from ._message_reading import read_contents
from ._queries import agent_rows, conversation, snapshot_rows
from ._row_errors import refuse_unreadable
from ._snapshot_documents import agent_document
from ._snapshot_finding import SnapshotFinder
from ._snapshot_records import LoadedSnapshot

_MOST_RANGES = 20
_TRIES = 5

_Attempt: TypeAlias = tuple[LoadedSnapshot | None, bool]
"""What was read, and whether it did not change meanwhile."""


class SnapshotReader(SnapshotFinder):
    def last_row(self, agent: AgentRecord) -> MessageVersion | None:
        """Return the last message of a conversation; None if it is empty."""
        rows = conversation(self.using, agent).order_by("-message_id")
        values = rows.values_list("message_id", "revision", "pk").first()
        return None if values is None else MessageVersion(*values)

    def latest_revision(self, agent: AgentRecord) -> int | None:
        """Return the revision of an agent's latest snapshot; None if it does not exist."""
        latest = snapshot_rows(self.using, agent).filter(snapshot_id=LATEST_SNAPSHOT_ID)
        return latest.values_list("revision", flat=True).first()

    @retry_reads
    def load_snapshot(
        self, session_id: str, agent_id: str, snapshot_id: str
    ) -> LoadedSnapshot | None:
        """Read a snapshot with its messages; None if it does not exist."""
        rows = self._named_snapshots(session_id).filter(
            agent__agent_id=agent_id, snapshot_id=snapshot_id
        )
        return _read_unchanged(session_id, lambda: self._load(rows, session_id, agent_id))

    @retry_reads
    def load_log(self, session_id: str, agent_id: str) -> LoadedSnapshot | None:
        """Build the latest snapshot of an agent that has none, from its message log."""
        return self._snapshot_of_log(session_id, agent_id, None)

    def _load(self, rows: QuerySet[Snapshot], session_id: str, agent_id: str) -> _Attempt:
        row = rows.select_related("session", "agent").first()
        if row is None or row.agent is None:
            return None, True
        agent = agent_without_state(row.agent)
        refuse_unreadable(f"a snapshot of agent {agent_id!r}", row)
        is_latest = row.snapshot_id == LATEST_SNAPSHOT_ID
        if is_latest and self._has_later_runs(agent, row):
            return self._snapshot_of_log(session_id, agent_id, row.revision), True
        contents, redacted, tail = self._referenced_messages(
            agent.on_branch(row.branch), row.messages, row.length
        )
        loaded = LoadedSnapshot(
            session=row.session_id,
            epoch=row.session.redaction_epoch,
            agent=agent.id,
            revision=row.revision if is_latest else self.latest_revision(agent),
            last=self.last_row(agent),
            branch=row.branch,
            messages=row.messages,
            document=row.document,
            contents=contents,
            redacted=frozenset(redacted),
        )
        version = rows.values_list("session__redaction_epoch", "branch", "revision").first()
        if version != (row.session.redaction_epoch, row.branch, row.revision):
            return None, False
        if row.tail in (None, tail):
            return loaded, True
        if is_latest:
            return self._snapshot_of_log(session_id, agent_id, row.revision), True
        raise SessionConflictError(
            f"messages of snapshot {row.snapshot_id} of agent {agent_id!r} were deleted since"
        )

    def _has_later_runs(self, agent: AgentRecord, row: Snapshot) -> bool:
        """Return whether a session manager appended messages after the latest snapshot."""
        if row.branch != MAIN_BRANCH:
            return False
        later = conversation(self.using, agent).filter(
            message_id__gte=row.length, run_id__isnull=False
        )
        return later.exists()

    def _is_log(self, row: SessionAgent, agent: AgentRecord) -> bool:
        """Return whether the messages of an agent without a latest snapshot came from elsewhere.

        Forks and imports have an ``origin``; messages of a session manager have a ``run_id``.
        """
        if row.session.origin is not None:
            return True
        last = conversation(self.using, agent).order_by("-message_id")
        return last.values_list("run_id", flat=True).first() is not None

    def _snapshot_of_log(
        self, session_id: str, agent_id: str, revision: int | None
    ) -> LoadedSnapshot | None:
        """Build a latest snapshot from the agent's message log."""
        agents = agent_rows(self.using).filter(
            session__in=self._context.sessions().filter_key(self._context.key(session_id)),
            agent_id=agent_id,
            dialect=dialects.STRANDS,
        )
        return _read_unchanged(session_id, lambda: self._load_log(agents, revision))

    def _load_log(self, agents: QuerySet[SessionAgent], revision: int | None) -> _Attempt:
        row = agents.select_related("session").first()
        if row is None:
            return None, True
        agent = agent_without_state(row)
        if revision is None and not self._is_log(row, agent):
            return None, True
        last = self.last_row(agent)
        end = 0 if last is None else last.position + 1
        data = agent_record(row).data
        if not end and not data.state and not data.conversation_manager_state:
            return None, True
        messages = held_by(data, end)
        contents, redacted, _ = self._referenced_messages(agent, messages, end)
        loaded = LoadedSnapshot(
            session=row.session_id,
            epoch=row.session.redaction_epoch,
            agent=agent.id,
            revision=revision,
            last=last,
            branch=MAIN_BRANCH,
            messages=messages,
            document=agent_document(data, row.updated_at),
            contents=contents,
            redacted=frozenset(redacted),
        )
        epochs = agents.values_list("session__redaction_epoch", flat=True)
        return loaded, epochs.first() == loaded.epoch

    def _referenced_messages(
        self, agent: AgentRecord, messages: list[Any], length: int
    ) -> tuple[dict[int, Any], set[int], UUID | None]:
        """Read payloads, the redacted positions, and the key of the last message."""
        spans = referenced_ranges(messages)
        if not spans:
            return {}, set(), None
        if len(spans) > _MOST_RANGES:
            spans = [[min(a for a, _ in spans), max(b for _, b in spans)]]
        condition = Q()
        for first, stop in spans:
            condition |= Q(message_id__gte=first, message_id__lt=stop)
        rows = conversation(self.using, agent).filter(condition)
        columns = ("message_id", PAYLOAD_TEXT, "redacted_at", "pk")
        rows_and_payloads = read_contents(self.using, agent, rows.values_list(*columns))
        contents = {row[0]: payload for row, payload in rows_and_payloads}
        tail = next(
            (row[3] for row, _ in reversed(rows_and_payloads) if row[0] == length - 1), None
        )
        return contents, {row[0] for row, _ in rows_and_payloads if row[2] is not None}, tail


def _read_unchanged(session_id: str, read: Callable[[], _Attempt]) -> LoadedSnapshot | None:
    """Read again while the session changes between the statements of an attempt."""
    for _ in range(_TRIES):
        loaded, is_unchanged = read()
        if is_unchanged:
            return loaded
    raise SessionConflictError(
        f"session {session_id!r} changed on each attempt to read it; try again"
    )
