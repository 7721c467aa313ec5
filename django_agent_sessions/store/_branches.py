"""Branches of a conversation: rewind, switch, compact and delete, without losing messages.

Each branch is a complete conversation. A rewind moves the later messages to a new branch and copies
the earlier ones there. The main branch keeps its rows, and each position means the same on both.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

from django_agent_sessions.blobs import delete_unreferenced, is_enabled
from django_agent_sessions.db.retries import retry_reads
from django_agent_sessions.db.write_hooks import on_written
from django_agent_sessions.exceptions import (
    SessionConflictError,
    SessionNotFoundError,
)
from django_agent_sessions.models import (
    MAIN_BRANCH,
    Branch,
    Session,
    Snapshot,
    TurnUsage,
    deletion,
)
from django_agent_sessions.models.removal import may_remove
from django_agent_sessions.values.records import AgentRecord, Append, BranchRecord

from ._agent_states import (
    LATEST_SNAPSHOT_ID,
    former_name_of_main,
    insert_snapshot,
    settle_agent,
    with_agent_lock,
)
from ._append import append_messages
from ._branch_steps import (
    branch_lengths,
    branch_record,
    copy_branch,
    find_branch_row,
    move_to_branch,
    swap_with_main,
)
from ._change_numbers import increment_redaction_epoch
from ._context import StorePart, twin
from ._counters import recounting
from ._message_copies import common_prefix_length
from ._queries import branch_rows, conversation, conversation_length, snapshot_rows
from ._turns import forget_costs


class Compacted(NamedTuple):
    """The branch with the replaced messages, if they were kept, and the new redaction epoch."""

    branch: BranchRecord | None
    epoch: int


class Branches(StorePart):
    """The operations of a store on branches."""

    @retry_reads
    def list(self, agent: AgentRecord) -> builtins.list[BranchRecord]:
        """List the branches of a conversation.

        Args:
            agent: The agent.

        Returns:
            The main branch first, then the others by number.
        """
        rows = {row.number: row for row in branch_rows(self.using, agent)}
        lengths = branch_lengths(self.using, agent)
        numbers = sorted({MAIN_BRANCH, *rows, *lengths})
        return [branch_record(agent, n, rows.get(n), lengths.get(n, 0)) for n in numbers]

    alist = twin(list)

    def find(self, agent: AgentRecord, name: str) -> BranchRecord | None:
        """Read a branch by its name.

        Args:
            agent: The agent.
            name: The name; the main branch is named ``"main"``.

        Returns:
            The branch; None if it does not exist.
        """
        return next((branch for branch in self.list(agent) if branch.name == name), None)

    afind = twin(find)

    def create(
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
            find_branch_row(self.using, agent, source, what)
            return copy_branch(self.using, agent, name, source, upto, kind, what)

        branch = with_agent_lock(self.using, agent, create, what)
        on_written(self.using, agent.session, "branch")
        return branch

    acreate = twin(create)

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
            main = agent.on_branch(MAIN_BRANCH)
            return move_to_branch(self.using, main, to, name, kind, what)

        branch = with_agent_lock(self.using, agent, move, what)
        on_written(self.using, agent.session, "branch")
        return branch

    aset_aside = twin(set_aside)

    def rewind(
        self, agent: AgentRecord, to: int, *, name: str | None = None
    ) -> BranchRecord | None:
        """Rewind to a message; the later messages are kept on a side branch.

        The agent's state is restored from a snapshot of that position if there is one. Otherwise
        the agent keeps its state, without the parts that refer to removed messages. A process that
        runs the agent meanwhile keeps its old messages: build the agent again.

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
            if to == conversation_length(self.using, agent.on_branch(MAIN_BRANCH)) - 1:
                return None
            insert_snapshot(self.using, agent)
            main = agent.on_branch(MAIN_BRANCH)
            branch = move_to_branch(self.using, main, to, name, Branch.Kind.REWOUND, what)
            settle_agent(self.using, agent, to + 1)
            increment_redaction_epoch(self.using, session, redacted=False)
            return branch

        branch = with_agent_lock(self.using, agent, rewind, what)
        on_written(self.using, agent.session, "branch")
        return branch

    arewind = twin(rewind)

    def compact(
        self,
        agent: AgentRecord,
        messages: Sequence[Any],
        replaced: Sequence[UUID],
        *,
        epoch: int,
        keep_history: bool = True,
    ) -> Compacted:
        """Replace the last messages of a branch with shorter ones: all or nothing.

        The replaced messages are kept on a new branch, which a redaction reaches. If such a message
        is redacted, encrypted summaries that were made from it are redacted completely, because
        their text cannot be searched.

        Args:
            agent: The agent; its ``branch`` selects the branch.
            messages: The payloads to write in place of the replaced messages.
            replaced: Primary keys of all messages from the first one to replace on, in order.
            epoch: Write only if the session's redaction epoch still has this value, so that no
                summary contains what was redacted while it was made.
            keep_history: Whether to keep the replaced messages. Under legal hold they are kept in
                any case.

        Returns:
            The new branch and the session's redaction epoch, which increases.

        Raises:
            SessionConflictError: Other messages follow the replaced ones, or one of them was
                deleted.
            StaleSessionError: The redaction epoch changed.
            SessionNotFoundError: The agent was deleted.
            PayloadError: A message is not JSON or exceeds a limit; nothing was written.
        """
        what = f"compacting agent {agent.agent_id!r}"

        def compact(session: Session) -> Compacted:
            return _replace_end(
                self.using,
                session,
                agent,
                messages,
                replaced,
                keep_history=keep_history,
                what=what,
            )

        result = with_agent_lock(self.using, agent, compact, what, epoch=epoch)
        on_written(self.using, agent.session, "branch")
        return result

    acompact = twin(compact)

    def switch(self, agent: AgentRecord, number: int) -> BranchRecord:
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
            row = find_branch_row(self.using, agent, number, what)
            if number == MAIN_BRANCH:
                raise SessionNotFoundError(f"{what}: it is already the main branch")
            insert_snapshot(self.using, agent)
            branch, name = swap_with_main(
                self.using,
                agent,
                number,
                row,
                change=session.change + 1,
                former_name=former_name_of_main(self.using, agent),
            )
            settle_agent(
                self.using, agent, conversation_length(self.using, agent), became_main=name
            )
            increment_redaction_epoch(self.using, session, redacted=False)
            return branch

        branch = with_agent_lock(self.using, agent, switch, what)
        on_written(self.using, agent.session, "branch")
        return branch

    aswitch = twin(switch)

    def delete(self, agent: AgentRecord, number: int) -> int:
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
            find_branch_row(self.using, agent, number, what)
            if number == MAIN_BRANCH:
                raise SessionNotFoundError(f"{what}: the main branch cannot be deleted")
            if (
                snapshot_rows(self.using, agent)
                .filter(branch=number, snapshot_id=LATEST_SNAPSHOT_ID)
                .exists()
            ):
                raise SessionConflictError(
                    f"{what}: the agent's latest snapshot belongs to it; restore that first"
                )
            with recounting(self.using, agent):
                rows = conversation(self.using, agent.on_branch(number)).order_by()
                deleted: int = deletion.delete_message_rows(rows)[0]
            for model in (Snapshot, TurnUsage):
                of_branch = model._base_manager.using(self.using).filter(agent=agent.id)
                of_branch.filter(branch=number).delete()
            branch_rows(self.using, agent).filter(number=number).delete()
            if deleted and is_enabled():
                delete_unreferenced(self.using, agent.session)
            return deleted

        deleted = with_agent_lock(self.using, agent, delete, what, removes=True)
        on_written(self.using, agent.session, "branch")
        return deleted

    adelete = twin(delete)

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

    acommon_length = twin(common_length)


def _replace_end(
    using: str,
    session: Session,
    agent: AgentRecord,
    messages: Sequence[Any],
    replaced: Sequence[UUID],
    *,
    keep_history: bool,
    what: str,
) -> Compacted:
    """Replace the last messages of a branch, in a transaction that has locked the session."""
    first = _first_replaced(using, agent, replaced, what)
    branch = None
    if keep_history or not may_remove(session):
        kind = Branch.Kind.COMPACTED
        branch = move_to_branch(using, agent, first - 1, None, kind, what)
    else:
        forget_costs(using, agent, first)
        rows = conversation(using, agent).filter(message_id__gte=first).order_by()
        with recounting(using, agent):
            deletion.delete_message_rows(rows)
        if is_enabled():
            delete_unreferenced(using, agent.session)
    append_messages(using, Append(agent, messages))
    # With this change the positions belong to other messages than before.
    written = conversation(using, agent).filter(message_id__gte=first).order_by()
    written.update(change=session.change + 1)
    return Compacted(branch, increment_redaction_epoch(using, session, redacted=False))


def _first_replaced(using: str, agent: AgentRecord, replaced: Sequence[UUID], what: str) -> int:
    """Return the position of the first message; raise if they are not the last ones any more."""
    last = conversation(using, agent).order_by("-message_id").values_list("pk", "message_id")
    found = list(last[: len(replaced)])[::-1]
    if not found or [key for key, _ in found] != list(replaced):
        raise SessionConflictError(
            f"{what}: messages were written or deleted since the conversation was read"
        )
    return found[0][1]
