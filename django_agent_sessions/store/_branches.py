"""Branches of a conversation: rewind, switch and delete, without losing messages.

Each branch is a complete conversation. A rewind moves the later messages to a new branch and copies
the earlier ones there. The main branch keeps its rows, and each position means the same on both.
"""

from __future__ import annotations

from uuid import UUID

from django_agent_sessions.blobs import delete_unreferenced, is_enabled
from django_agent_sessions.db import notifications
from django_agent_sessions.exceptions import (
    LegalHoldError,
    SessionConflictError,
    SessionNotFoundError,
)
from django_agent_sessions.models import MAIN_BRANCH, Branch, Session, Snapshot, TurnUsage
from django_agent_sessions.values.records import AgentRecord, BranchRecord, SnapshotRecord, Usage

from ._agent_snapshots import LATEST_SNAPSHOT_ID
from ._base import retry_reads
from ._branch_steps import BranchWriter, branch_record
from ._content_writes import increment_redaction_epoch
from ._message_copies import common_prefix_length


class BranchStore(BranchWriter):
    @retry_reads
    def branches(self, agent: AgentRecord) -> list[BranchRecord]:
        """List the branches of a conversation.

        Args:
            agent: The agent.

        Returns:
            The main branch first, then the others by number.
        """
        rows = {row.number: row for row in self._branch_rows(agent)}
        lengths = self._lengths(agent)
        numbers = sorted({MAIN_BRANCH, *rows, *lengths})
        return [branch_record(agent, n, rows.get(n), lengths.get(n, 0)) for n in numbers]

    async def abranches(self, agent: AgentRecord) -> list[BranchRecord]:
        """Async twin of :meth:`branches`."""
        return await self._arun(self.branches, agent)

    def find_branch(self, agent: AgentRecord, name: str) -> BranchRecord | None:
        """Read a branch by its name.

        Args:
            agent: The agent.
            name: The name; the main branch is named ``"main"``.

        Returns:
            The branch; None if it does not exist.
        """
        return next((branch for branch in self.branches(agent) if branch.name == name), None)

    async def afind_branch(self, agent: AgentRecord, name: str) -> BranchRecord | None:
        """Async twin of :meth:`find_branch`."""
        return await self._arun(self.find_branch, agent, name)

    def create_branch(
        self,
        agent: AgentRecord,
        *,
        name: str | None = None,
        source: int = MAIN_BRANCH,
        upto: int | None = None,
        kind: str = Branch.Kind.CREATED,
    ) -> BranchRecord:
        """Create a branch with a copy of another branch's first messages.

        Args:
            agent: The agent.
            name: Its name; ``branch-<number>`` by default.
            source: Number of the branch to copy from.
            upto: Number of messages to copy; None copies all.
            kind: How the branch was created.

        Returns:
            The branch.

        Raises:
            SessionConflictError: A branch with this name exists.
            SessionNotFoundError: The source branch does not exist, or the agent was deleted.
            InvalidIdError: The name is invalid.
            BlobError: A large binary could not be copied.
        """
        what = f"creating a branch of agent {agent.agent_id!r}"

        def create(session: Session) -> BranchRecord:
            self._known_branch(agent, source, what)
            return self._create(agent, name, source, upto, kind, what)

        branch = self._with_session_lock(agent, create, what)
        notifications.notify_written(self.using, agent.session)
        return branch

    async def acreate_branch(
        self,
        agent: AgentRecord,
        *,
        name: str | None = None,
        source: int = MAIN_BRANCH,
        upto: int | None = None,
        kind: str = Branch.Kind.CREATED,
    ) -> BranchRecord:
        """Async twin of :meth:`create_branch`."""
        return await self._arun(
            self.create_branch, agent, name=name, source=source, upto=upto, kind=kind
        )

    def set_aside(
        self,
        agent: AgentRecord,
        to: int,
        *,
        name: str | None = None,
        kind: str = Branch.Kind.REWOUND,
    ) -> BranchRecord | None:
        """Move the messages after a position to a side branch, and change nothing else.

        For callers that write the agent's state themselves; others call :meth:`rewind`. Snapshots
        that reference moved messages follow them.

        Args:
            agent: The agent.
            to: Position of the last message that stays; -1 moves all.
            name: Name of the side branch; ``branch-<number>`` by default.
            kind: How the branch was created.

        Returns:
            The side branch; None if there are no later messages.

        Raises:
            SessionNotFoundError: The message does not exist, or the agent was deleted.
            SessionConflictError: A branch with this name exists.
            InvalidIdError: The name is invalid.
        """
        what = f"moving messages of agent {agent.agent_id!r} to a side branch"

        def move(session: Session) -> BranchRecord | None:
            return self._move_to_branch(agent, to, name, kind, what)

        branch = self._with_session_lock(agent, move, what)
        notifications.notify_written(self.using, agent.session)
        return branch

    async def aset_aside(
        self,
        agent: AgentRecord,
        to: int,
        *,
        name: str | None = None,
        kind: str = Branch.Kind.REWOUND,
    ) -> BranchRecord | None:
        """Async twin of :meth:`set_aside`."""
        return await self._arun(self.set_aside, agent, to, name=name, kind=kind)

    def rewind(
        self, agent: AgentRecord, to: int, *, name: str | None = None
    ) -> BranchRecord | None:
        """Rewind to a message; the later messages are kept on a side branch.

        The agent's state is restored from a snapshot of that position if there is one. Otherwise
        the agent keeps its state, without the parts that refer to removed messages. A process that
        runs the agent meanwhile has to reload it before its next write.

        Args:
            agent: The agent.
            to: Position of the last message that stays; -1 moves all.
            name: Name of the side branch; ``branch-<number>`` by default.

        Returns:
            The side branch; None if there are no later messages and nothing changed.

        Raises:
            SessionNotFoundError: The message does not exist, or the agent was deleted.
            SessionConflictError: A branch with this name exists.
            InvalidIdError: The name is invalid.
        """
        what = f"rewinding agent {agent.agent_id!r}"

        def rewind(session: Session) -> BranchRecord | None:
            if to == self._length(agent.on_branch(MAIN_BRANCH)) - 1:
                return None
            self._insert_snapshot(agent)
            branch = self._move_to_branch(agent, to, name, Branch.Kind.REWOUND, what)
            self._settle(agent, to + 1)
            increment_redaction_epoch(self.using, session, redacted=False)
            return branch

        branch = self._with_session_lock(agent, rewind, what)
        notifications.notify_written(self.using, agent.session)
        return branch

    async def arewind(
        self, agent: AgentRecord, to: int, *, name: str | None = None
    ) -> BranchRecord | None:
        """Async twin of :meth:`rewind`."""
        return await self._arun(self.rewind, agent, to, name=name)

    def switch_branch(self, agent: AgentRecord, number: int) -> BranchRecord:
        """Make a side branch the main branch; the former main branch becomes a side branch.

        The agent's state is restored as in :meth:`rewind`.

        Args:
            agent: The agent.
            number: Number of the side branch.

        Returns:
            The side branch with the messages of the former main branch.

        Raises:
            SessionNotFoundError: The branch does not exist, or the agent was deleted.
        """
        what = f"switching agent {agent.agent_id!r} to branch {number}"

        def switch(session: Session) -> BranchRecord:
            row = self._known_branch(agent, number, what)
            if number == MAIN_BRANCH:
                raise SessionNotFoundError(f"{what}: it is already the main branch")
            self._insert_snapshot(agent)
            name = None if row is None else row.name
            branch = self._swap(agent, number, row)
            self._settle(agent, self._length(agent), became_main=name)
            increment_redaction_epoch(self.using, session, redacted=False)
            return branch

        branch = self._with_session_lock(agent, switch, what)
        notifications.notify_written(self.using, agent.session)
        return branch

    async def aswitch_branch(self, agent: AgentRecord, number: int) -> BranchRecord:
        """Async twin of :meth:`switch_branch`."""
        return await self._arun(self.switch_branch, agent, number)

    def delete_branch(self, agent: AgentRecord, number: int) -> int:
        """Delete a side branch with its messages and snapshots.

        Args:
            agent: The agent.
            number: Number of the side branch.

        Returns:
            The number of deleted messages.

        Raises:
            SessionNotFoundError: The side branch does not exist, or the agent was deleted.
            SessionConflictError: The agent's latest snapshot belongs to the branch.
            LegalHoldError: The session is under legal hold.
        """
        what = f"deleting branch {number} of agent {agent.agent_id!r}"

        def delete(session: Session) -> int:
            if session.legal_hold:
                raise LegalHoldError(
                    f"{what}: its session is under legal hold; release it first", [session]
                )
            self._known_branch(agent, number, what)
            if number == MAIN_BRANCH:
                raise SessionNotFoundError(f"{what}: the main branch cannot be deleted")
            if (
                self._snapshots(agent)
                .filter(branch=number, snapshot_id=LATEST_SNAPSHOT_ID)
                .exists()
            ):
                raise SessionConflictError(
                    f"{what}: the agent's latest snapshot belongs to it; restore that first"
                )
            deleted = self._messages(agent.on_branch(number)).order_by().delete()[0]
            for model in (Snapshot, TurnUsage):
                of_branch = model._base_manager.using(self.using).filter(agent=agent.id)
                of_branch.filter(branch=number).delete()
            self._branch_rows(agent).filter(number=number).delete()
            if deleted and is_enabled():
                delete_unreferenced(self.using, agent.session)
            self._count(agent, Usage(messages=-deleted))
            return deleted

        deleted = self._with_session_lock(agent, delete, what)
        notifications.notify_written(self.using, agent.session)
        return deleted

    async def adelete_branch(self, agent: AgentRecord, number: int) -> int:
        """Async twin of :meth:`delete_branch`."""
        return await self._arun(self.delete_branch, agent, number)

    @retry_reads
    def common_length(self, agent: AgentRecord, left: int, right: int) -> int:
        """Return how many messages two branches have in common at the beginning.

        Args:
            agent: The agent.
            left: Number of a branch.
            right: Number of another branch.

        Returns:
            The number of messages.
        """
        return common_prefix_length(self.using, agent, left, right)

    async def acommon_length(self, agent: AgentRecord, left: int, right: int) -> int:
        """Async twin of :meth:`common_length`."""
        return await self._arun(self.common_length, agent, left, right)

    def restore_snapshot(self, agent: AgentRecord, snapshot: UUID) -> SnapshotRecord:
        """Restore an agent's conversation and state from a snapshot.

        Later messages are kept on a side branch.

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
            row = self._snapshots(agent).filter(pk=snapshot).first()
            if row is None:
                raise SessionNotFoundError(f"{what}: snapshot {snapshot} does not exist")
            tail = self._key_at(agent.on_branch(row.branch), row.length - 1)
            if row.tail not in (None, tail):
                raise SessionConflictError(
                    f"{what}: messages of snapshot {snapshot} were deleted since"
                )
            self._insert_snapshot(agent)
            name = None
            if row.branch != MAIN_BRANCH:
                branch = self._known_branch(agent, row.branch, what)
                name = None if branch is None else branch.name
                self._swap(agent, row.branch, branch)
            self._move_to_branch(agent, row.length - 1, None, Branch.Kind.REWOUND, what)
            row.refresh_from_db(using=self.using)
            self._settle(agent, row.length, row, became_main=name)
            increment_redaction_epoch(self.using, session, redacted=False)
            return self._snapshot_record(row)

        record = self._with_session_lock(agent, restore, what)
        notifications.notify_written(self.using, agent.session)
        return record

    async def arestore_snapshot(self, agent: AgentRecord, snapshot: UUID) -> SnapshotRecord:
        """Async twin of :meth:`restore_snapshot`."""
        return await self._arun(self.restore_snapshot, agent, snapshot)
