"""Snapshots of an agent: its state and the positions of its messages."""

from __future__ import annotations

import builtins
from uuid import UUID

from django_agent_sessions.db.retries import retry_reads
from django_agent_sessions.db.write_hooks import on_written
from django_agent_sessions.exceptions import SessionConflictError, SessionNotFoundError
from django_agent_sessions.models import MAIN_BRANCH, Branch, Session
from django_agent_sessions.values.records import AgentRecord, SnapshotRecord

from ._agent_states import (
    LATEST_SNAPSHOT_ID,
    former_name_of_main,
    insert_snapshot,
    settle_agent,
    snapshot_record,
    with_agent_lock,
)
from ._branch_steps import find_branch_row, move_to_branch, swap_with_main
from ._change_numbers import increment_redaction_epoch
from ._context import StorePart, twin
from ._queries import key_at, snapshot_rows


class Snapshots(StorePart):
    """The operations of a store on snapshots of agents."""

    def take(self, agent: AgentRecord) -> SnapshotRecord:
        """Take a snapshot of an agent, to restore it later. No message is copied.

        Args:
            agent: The agent.

        Returns:
            The snapshot.

        Raises:
            SessionNotFoundError: The agent was deleted.
        """
        what = f"taking a snapshot of agent {agent.agent_id!r}"

        def take(session: Session) -> SnapshotRecord:
            return snapshot_record(insert_snapshot(self.using, agent))

        return with_agent_lock(self.using, agent, take, what)

    atake = twin(take)

    @retry_reads
    def list(
        self, agent: AgentRecord, *, limit: int = 50, after: UUID | None = None
    ) -> builtins.list[SnapshotRecord]:
        """List an agent's snapshots, newest first.

        Args:
            agent: The agent.
            limit: Maximum number of snapshots.
            after: Primary key of the last snapshot of the previous page.

        Returns:
            The snapshots.
        """
        rows = (
            snapshot_rows(self.using, agent).exclude(snapshot_id=LATEST_SNAPSHOT_ID).order_by("-id")
        )
        if after is not None:
            rows = rows.filter(pk__lt=after)
        return [snapshot_record(row) for row in rows.defer("document", "messages")[:limit]]

    alist = twin(list)

    def restore(self, agent: AgentRecord, snapshot: UUID) -> SnapshotRecord:
        """Restore an agent's conversation and state from a snapshot.

        Later messages are kept on a side branch. The state of a run that waits for a person is not
        changed, so that one that was taken does not come back.

        Args:
            agent: The agent.
            snapshot: Primary key of one of its snapshots.

        Returns:
            The snapshot after the change.

        Raises:
            SessionNotFoundError: The agent has no such snapshot, or was deleted.
            SessionConflictError: Messages that the snapshot references were deleted.
        """
        what = f"restoring a snapshot of agent {agent.agent_id!r}"

        def restore(session: Session) -> SnapshotRecord:
            row = snapshot_rows(self.using, agent).filter(pk=snapshot).first()
            if row is None:
                raise SessionNotFoundError(f"{what}: snapshot {snapshot} does not exist")
            tail = key_at(self.using, agent.on_branch(row.branch), row.length - 1)
            if row.tail not in (None, tail):
                raise SessionConflictError(
                    f"{what}: messages of snapshot {snapshot} were deleted since"
                )
            insert_snapshot(self.using, agent)
            name = None
            if row.branch != MAIN_BRANCH:
                branch = find_branch_row(self.using, agent, row.branch, what)
                _, name = swap_with_main(
                    self.using,
                    agent,
                    row.branch,
                    branch,
                    change=session.change + 1,
                    former_name=former_name_of_main(self.using, agent),
                )
            main = agent.on_branch(MAIN_BRANCH)
            move_to_branch(self.using, main, row.length - 1, None, Branch.Kind.REWOUND, what)
            row.refresh_from_db(using=self.using)
            settle_agent(self.using, agent, row.length, row, became_main=name)
            increment_redaction_epoch(self.using, session, redacted=False)
            return snapshot_record(row)

        record = with_agent_lock(self.using, agent, restore, what)
        on_written(self.using, agent.session, "snapshot")
        return record

    arestore = twin(restore)
