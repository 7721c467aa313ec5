"""Branches of a conversation: going back in time, and keeping what was said after that.

Each branch is whole in itself. A rewind moves the later messages to a new branch, and copies the
earlier ones there, so that the main branch keeps its rows, and every position means the same on
both.
"""

from __future__ import annotations

from uuid import UUID

from django_agent_sessions import notifying
from django_agent_sessions.blobs import drop_messages, in_use
from django_agent_sessions.exceptions import (
    LegalHoldError,
    SessionConflictError,
    SessionNotFoundError,
)
from django_agent_sessions.models import (
    MAIN_BRANCH,
    Branch,
    Session,
    Snapshot,
    TurnUsage,
)
from django_agent_sessions.records import AgentRecord, BranchRecord, SnapshotRecord, Usage

from .base import repeatable
from .branching import BranchWriter, branch_record
from .copying import common
from .moments import LATEST
from .redacting import move_epoch


class BranchStore(BranchWriter):
    """The part of the store that knows branches."""

    @repeatable
    def branches(self, agent: AgentRecord) -> list[BranchRecord]:
        """Lists the branches of a conversation.

        Args:
            agent: The agent whose conversation it is.

        Returns:
            The main branch, and the others in order of their numbers.
        """
        rows = {row.number: row for row in self._branch_rows(agent)}
        lengths = self._lengths(agent)
        numbers = sorted({MAIN_BRANCH, *rows, *lengths})
        return [branch_record(agent, n, rows.get(n), lengths.get(n, 0)) for n in numbers]

    async def abranches(self, agent: AgentRecord) -> list[BranchRecord]:
        """Does what :meth:`branches` does."""
        return await self._arun(self.branches, agent)

    def find_branch(self, agent: AgentRecord, name: str) -> BranchRecord | None:
        """Finds a branch by its name.

        Args:
            agent: The agent whose conversation it is.
            name: The name; ``"main"`` is the main branch's.

        Returns:
            The branch; None if there is none.
        """
        return next((branch for branch in self.branches(agent) if branch.name == name), None)

    async def afind_branch(self, agent: AgentRecord, name: str) -> BranchRecord | None:
        """Does what :meth:`find_branch` does."""
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
        """Makes a branch that begins like another.

        Args:
            agent: The agent whose conversation it is.
            name: Its name; ``branch-<number>``, if not given.
            source: The number of the other branch.
            upto: How many of its first messages the new one begins with; None for all.
            kind: How it comes to be.

        Returns:
            The branch.

        Raises:
            SessionConflictError: There is a branch of this name.
            SessionNotFoundError: There is no such other branch, or the agent was deleted.
            InvalidIdError: The name cannot be one.
            BlobError: A large binary could not be copied.
        """
        what = f"branching agent {agent.agent_id!r}"

        def create(session: Session) -> BranchRecord:
            self._known_branch(agent, source, what)
            return self._create(agent, name, source, upto, kind, what)

        made = self._alone(agent, create, what)
        notifying.written(self.using, agent.session)
        return made

    async def acreate_branch(
        self,
        agent: AgentRecord,
        *,
        name: str | None = None,
        source: int = MAIN_BRANCH,
        upto: int | None = None,
        kind: str = Branch.Kind.CREATED,
    ) -> BranchRecord:
        """Does what :meth:`create_branch` does."""
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
        """Moves what was said after a message to a side branch, and nothing else.

        For a writer that knows the agent's state itself. Snapshots that refer to what is moved
        follow it. Everybody else calls :meth:`rewind`.

        Args:
            agent: The agent whose conversation it is.
            to: Position of the last message that stays; -1 lets none stay.
            name: Name of the side branch; ``branch-<number>``, if not given.
            kind: How it comes to be.

        Returns:
            The side branch; None if nothing was said after that message.

        Raises:
            SessionNotFoundError: There is no such message, or the agent was deleted.
            SessionConflictError: There is a branch of this name.
            InvalidIdError: The name cannot be one.
        """
        what = f"setting aside messages of agent {agent.agent_id!r}"

        def aside(session: Session) -> BranchRecord | None:
            return self._set_aside(agent, to, name, kind, what)

        made = self._alone(agent, aside, what)
        notifying.written(self.using, agent.session)
        return made

    async def aset_aside(
        self,
        agent: AgentRecord,
        to: int,
        *,
        name: str | None = None,
        kind: str = Branch.Kind.REWOUND,
    ) -> BranchRecord | None:
        """Does what :meth:`set_aside` does."""
        return await self._arun(self.set_aside, agent, to, name=name, kind=kind)

    def rewind(
        self, agent: AgentRecord, to: int, *, name: str | None = None
    ) -> BranchRecord | None:
        """Goes back to a message; what was said after it is kept as a side branch.

        The agent's state goes back too, where a snapshot has it as of then. Where none has, the
        agent keeps its state, without what speaks of messages that are not there any more. Whoever
        runs the agent meanwhile reads it again before the next write.

        Args:
            agent: The agent whose conversation it is.
            to: Position of the last message that stays; -1 lets none stay.
            name: Name of the side branch; ``branch-<number>``, if not given.

        Returns:
            The side branch; None if nothing was said after that message, and nothing changed.

        Raises:
            SessionNotFoundError: There is no such message, or the agent was deleted.
            SessionConflictError: There is a branch of this name.
            InvalidIdError: The name cannot be one.
        """
        what = f"rewinding agent {agent.agent_id!r}"

        def rewind(session: Session) -> BranchRecord | None:
            if to == self._length(agent.on_branch(MAIN_BRANCH)) - 1:
                return None
            self._keep_moment(agent)
            made = self._set_aside(agent, to, name, Branch.Kind.REWOUND, what)
            self._settle(agent, to + 1)
            move_epoch(self.using, session, redacted=False)
            return made

        made = self._alone(agent, rewind, what)
        notifying.written(self.using, agent.session)
        return made

    async def arewind(
        self, agent: AgentRecord, to: int, *, name: str | None = None
    ) -> BranchRecord | None:
        """Does what :meth:`rewind` does."""
        return await self._arun(self.rewind, agent, to, name=name)

    def switch_branch(self, agent: AgentRecord, number: int) -> BranchRecord:
        """Makes a side branch the main one; what was the main one becomes a side branch.

        The agent's state follows, as in :meth:`rewind`.

        Args:
            agent: The agent whose conversation it is.
            number: The number of the side branch.

        Returns:
            The side branch that holds what the main one held.

        Raises:
            SessionNotFoundError: There is no such branch, or the agent was deleted.
        """
        what = f"switching agent {agent.agent_id!r} to branch {number}"

        def switch(session: Session) -> BranchRecord:
            row = self._known_branch(agent, number, what)
            if number == MAIN_BRANCH:
                raise SessionNotFoundError(f"{what}: it is the main branch already")
            self._keep_moment(agent)
            name = None if row is None else row.name
            made = self._swap(agent, number, row)
            self._settle(agent, self._length(agent), became_main=name)
            move_epoch(self.using, session, redacted=False)
            return made

        made = self._alone(agent, switch, what)
        notifying.written(self.using, agent.session)
        return made

    async def aswitch_branch(self, agent: AgentRecord, number: int) -> BranchRecord:
        """Does what :meth:`switch_branch` does."""
        return await self._arun(self.switch_branch, agent, number)

    def delete_branch(self, agent: AgentRecord, number: int) -> int:
        """Deletes a side branch, with its messages and the snapshots of it.

        Args:
            agent: The agent whose conversation it is.
            number: The number of the side branch.

        Returns:
            How many messages it had.

        Raises:
            SessionNotFoundError: There is no such side branch, or the agent was deleted.
            SessionConflictError: The agent's latest snapshot is of it.
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
            if self._snapshots(agent).filter(branch=number, snapshot_id=LATEST).exists():
                raise SessionConflictError(
                    f"{what}: the agent's latest snapshot is of it; restore that first"
                )
            deleted = self._messages(agent.on_branch(number)).order_by().delete()[0]
            for model in (Snapshot, TurnUsage):
                of_branch = model._base_manager.using(self.using).filter(agent=agent.id)
                of_branch.filter(branch=number).delete()
            self._branch_rows(agent).filter(number=number).delete()
            if deleted and in_use():
                drop_messages(self.using, agent.session)
            self._count(agent, Usage(messages=-deleted))
            return deleted

        deleted = self._alone(agent, delete, what)
        notifying.written(self.using, agent.session)
        return deleted

    async def adelete_branch(self, agent: AgentRecord, number: int) -> int:
        """Does what :meth:`delete_branch` does."""
        return await self._arun(self.delete_branch, agent, number)

    @repeatable
    def common_length(self, agent: AgentRecord, left: int, right: int) -> int:
        """Compares two branches.

        Args:
            agent: The agent whose conversation it is.
            left: The number of a branch.
            right: The number of another.

        Returns:
            With how many messages that are the same both begin.
        """
        return common(self.using, agent, left, right)

    async def acommon_length(self, agent: AgentRecord, left: int, right: int) -> int:
        """Does what :meth:`common_length` does."""
        return await self._arun(self.common_length, agent, left, right)

    def restore_snapshot(self, agent: AgentRecord, snapshot: UUID) -> SnapshotRecord:
        """Brings an agent back to a snapshot: its conversation, and its state as of then.

        What was said since is kept as a side branch.

        Args:
            agent: The agent.
            snapshot: Primary key of one of its snapshots.

        Returns:
            The snapshot, as it is now.

        Raises:
            SessionNotFoundError: The agent has no such snapshot, or was deleted.
            SessionConflictError: Messages that it refers to were taken away since.
        """
        what = f"restoring a snapshot of agent {agent.agent_id!r}"

        def restore(session: Session) -> SnapshotRecord:
            row = self._snapshots(agent).filter(pk=snapshot).first()
            if row is None:
                raise SessionNotFoundError(f"{what}: there is no snapshot {snapshot}")
            tail = self._key_at(agent.on_branch(row.branch), row.length - 1)
            if row.tail not in (None, tail):
                raise SessionConflictError(
                    f"{what}: messages of snapshot {snapshot} were taken away since"
                )
            self._keep_moment(agent)
            name = None
            if row.branch != MAIN_BRANCH:
                branch = self._known_branch(agent, row.branch, what)
                name = None if branch is None else branch.name
                self._swap(agent, row.branch, branch)
            self._set_aside(agent, row.length - 1, None, Branch.Kind.REWOUND, what)
            row.refresh_from_db(using=self.using)
            self._settle(agent, row.length, row, became_main=name)
            move_epoch(self.using, session, redacted=False)
            return self._snapshot_record(row)

        found = self._alone(agent, restore, what)
        notifying.written(self.using, agent.session)
        return found

    async def arestore_snapshot(self, agent: AgentRecord, snapshot: UUID) -> SnapshotRecord:
        """Does what :meth:`restore_snapshot` does."""
        return await self._arun(self.restore_snapshot, agent, snapshot)
