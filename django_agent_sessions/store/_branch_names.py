"""Branches by name, for an SDK that selects branches by name.

A name is never reused within a conversation, so that a caller with an old name never reaches
another branch. The agent's internal state stores the names of deleted branches.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import count
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import QuerySet

from django_agent_sessions.blobs import delete_unreferenced, is_enabled
from django_agent_sessions.db.retries import retry_reads
from django_agent_sessions.db.write_hooks import on_written
from django_agent_sessions.exceptions import (
    SessionConflictError,
    SessionNotFoundError,
    UnreadableStateError,
)
from django_agent_sessions.models import (
    MAIN_BRANCH,
    Session,
    SessionAgent,
    SessionMessage,
    TurnUsage,
    deletion,
)
from django_agent_sessions.models.content_field import update_one
from django_agent_sessions.values.records import (
    AgentRecord,
    BranchSize,
    MessageRecord,
    PositionedPayload,
    TurnCost,
    Usage,
)

from ._agent_states import BRANCH_NAMES, former_name_of_main, with_agent_lock
from ._branch_steps import MAIN_NAME
from ._context import StoreOperations
from ._counters import recounting
from ._queries import agent_rows, branch_rows, conversation
from ._row_errors import corrupt_columns, corrupt_state
from ._turns import IS_USER_MESSAGE, forget_costs


class BranchSummary(NamedTuple):
    """A branch that has messages."""

    name: str
    created_at: datetime
    size: BranchSize


class BranchNames(StoreOperations):
    """Branches of a store's conversations by name. It has no async twins."""

    @retry_reads
    def find(self, agent: AgentRecord, name: str) -> AgentRecord | None:
        """Return the agent on the branch with this name; None if it does not exist.

        A branch that became the main one is found by its former name, too.
        """
        if name == MAIN_NAME:
            return agent.on_branch(MAIN_BRANCH)
        numbers = branch_rows(self.using, agent).filter(name=name).values_list("number", flat=True)
        number = numbers.first()
        if number is None and name == former_name_of_main(self.using, agent):
            number = MAIN_BRANCH
        return None if number is None else agent.on_branch(number)

    def follow(self, agent: AgentRecord, name: str) -> AgentRecord | None:
        """Return a branch that a caller selected earlier; None if it was deleted.

        After a clear, or after the branch became the main one, return the main branch.
        """
        branch = self.find(agent, name)
        if branch is None and name in _reserved_names(_state(self.using, agent), "cleared"):
            return agent.on_branch(MAIN_BRANCH)
        return branch

    @retry_reads
    def list(self, agent: AgentRecord) -> builtins.list[BranchSummary]:
        """List the branches that have messages, oldest first."""
        sizes = self.store.turns.sizes(agent)
        rows = branch_rows(self.using, agent).values_list("number", "name", "created_at")
        branches = [
            (created_at, number, name) for number, name, created_at in rows if number in sizes
        ]
        if MAIN_BRANCH in sizes:
            branches.append((sizes[MAIN_BRANCH].first_at, MAIN_BRANCH, MAIN_NAME))
        return [
            BranchSummary(name, created_at, sizes[number])
            for created_at, number, name in sorted(branches)
        ]

    @retry_reads
    def has_messages(self, agent: AgentRecord) -> bool:
        return conversation(self.using, agent).exists()

    def append(
        self,
        agent: AgentRecord,
        name: str,
        messages: Sequence[Any],
        *,
        run_id: UUID | None = None,
        epoch: int | None = None,
    ) -> tuple[AgentRecord, builtins.list[MessageRecord]]:
        """Append messages to a branch, as :meth:`SessionStore.append_many` does.

        A branch that was deleted meanwhile is created again, so that the messages are neither lost
        nor written to another branch.
        """
        what = f"appending to a branch of agent {agent.agent_id!r}"

        def append(session: Session) -> tuple[AgentRecord, builtins.list[MessageRecord]]:
            branch = self.follow(agent, name)
            if branch is None:
                created = self.store.branches.create(agent, name=name, upto=0)
                branch = agent.on_branch(created.number)
            return branch, self.store.append_many(branch, messages, run_id=run_id, epoch=epoch)

        return with_agent_lock(self.using, agent, append, what)

    def pop(
        self, agent: AgentRecord, name: str
    ) -> tuple[AgentRecord | None, PositionedPayload | None]:
        """Delete and return a branch's last message; delete the usage of turns left empty."""
        what = f"popping from a branch of agent {agent.agent_id!r}"

        def pop(session: Session) -> tuple[AgentRecord | None, PositionedPayload | None]:
            branch = self.follow(agent, name)
            popped = None if branch is None else self.store.messages.pop(branch)
            if branch is not None and popped is not None:
                forget_costs(self.using, branch, popped.position)
            return branch, popped

        try:
            return with_agent_lock(self.using, agent, pop, what)
        except SessionNotFoundError:
            return None, None

    def clear(self, agent: AgentRecord, *, epoch: int | None = None) -> int:
        """Delete all messages of an agent on all branches, and their usage; return their number."""
        what = f"clearing agent {agent.agent_id!r}"
        branches = branch_rows(self.using, agent)
        messages = SessionMessage.objects.using(self.using).filter(agent=agent.id).order_by()

        def removes() -> bool:
            return branches.exists() or messages.exists()

        def clear(session: Session) -> int:
            names = list(branches.values_list("name", flat=True))
            with recounting(self.using, agent):
                deleted: int = deletion.delete_message_rows(messages)[0]
            _of(self.using, TurnUsage.objects.all(), agent).delete()
            if names:
                branches.delete()
            _reserve_names(self.using, agent, names, cleared=True)
            if deleted and is_enabled():
                delete_unreferenced(self.using, agent.session)
            return deleted

        try:
            deleted = with_agent_lock(self.using, agent, clear, what, epoch=epoch, removes=removes)
        except SessionNotFoundError:
            return 0
        if deleted:
            on_written(self.using, agent.session, "clear")
        return deleted

    def create_at_turn(
        self, agent: AgentRecord, source: str, turn: int, name: str, *, numbered: bool = False
    ) -> str:
        """Create a branch with the messages before a turn, and return its name.

        With ``numbered``, a number is appended to a name that is taken.
        """
        what = f"branching agent {agent.agent_id!r} at turn {turn}"

        def create(session: Session) -> str:
            branch = self.follow(agent, source)
            position = None if branch is None else _turn_at(self.using, branch, turn)
            if branch is None or position is None:
                raise SessionNotFoundError(f"{what}: the turn does not exist")
            free_name = _free_name(self.using, agent, name, numbered)
            if free_name is None:
                raise SessionConflictError(
                    f"{what}: the name is or was in use; choose another name"
                )
            self.store.branches.create(agent, name=free_name, source=branch.branch, upto=position)
            return free_name

        return with_agent_lock(self.using, agent, create, what)

    def delete(self, agent: AgentRecord, name: str) -> int:
        """Delete a branch that has messages, with its usage; its name stays reserved."""
        what = f"deleting a branch of agent {agent.agent_id!r}"

        def drop(session: Session) -> int:
            branch = self.find(agent, name)
            if branch is None or not conversation(self.using, branch).exists():
                raise SessionNotFoundError(f"{what}: the branch does not exist")
            deleted = self.store.branches.delete(agent, branch.branch)
            _reserve_names(self.using, agent, [name])
            return deleted

        return with_agent_lock(self.using, agent, drop, what)

    def save_cost(
        self, agent: AgentRecord, name: str, cost: TurnCost, *, uncounted: Usage | None = None
    ) -> int | None:
        """Store the usage of a branch's latest turn, as :meth:`Turns.save_cost` does."""
        what = f"storing the usage of agent {agent.agent_id!r}"

        def store(session: Session) -> int | None:
            branch = self.find(agent, name)
            if branch is None:
                return None
            return self.store.turns.save_cost(branch, cost, uncounted=uncounted)

        try:
            return with_agent_lock(self.using, agent, store, what)
        except SessionNotFoundError:
            return None


def _candidate_names(name: str, numbered: bool) -> Iterator[str]:
    yield name
    if numbered:
        yield from (f"{name}_{number}" for number in count(2))


def _reserved_names(state: Any, kind: str) -> list[str]:
    names = state.get(BRANCH_NAMES) if isinstance(state, dict) else None
    values = names.get(kind) if isinstance(names, dict) else None
    return [name for name in values if isinstance(name, str)] if isinstance(values, list) else []


def _turn_at(using: str, agent: AgentRecord, turn: int) -> int | None:
    if turn < 1:
        return None
    rows = conversation(using, agent).filter(IS_USER_MESSAGE).values_list("message_id", flat=True)
    return next(iter(rows[turn - 1 : turn]), None)


def _free_name(using: str, agent: AgentRecord, name: str, numbered: bool) -> str | None:
    state = _state(using, agent)
    taken = {MAIN_NAME, *_reserved_names(state, "deleted"), *_reserved_names(state, "cleared")}
    taken.update(branch_rows(using, agent).values_list("name", flat=True))
    return next((each for each in _candidate_names(name, numbered) if each not in taken), None)


def _reserve_names(
    using: str, agent: AgentRecord, names: Sequence[str], *, cleared: bool = False
) -> None:
    """Store the names of deleted branches in the agent's internal state."""
    state = _state(using, agent)
    reserved: dict[str, Any] = {
        kind: _reserved_names(state, kind) for kind in ("deleted", "cleared")
    }
    main = former_name_of_main(using, agent)
    if cleared:
        names = [*reserved["deleted"], *names, *([] if main is None else [main])]
        reserved["deleted"] = []
    kind = "cleared" if cleared else "deleted"
    reserved[kind] = list(dict.fromkeys([*reserved[kind], *names]))
    if names and isinstance(state, dict):
        new = {"internal_state": {**state, BRANCH_NAMES: reserved}}
        rows = agent_rows(using).filter(pk=agent.id)
        update_one(rows, new, main_name=None if cleared else main)


_NAMED = ("session", "internal_state")


def _state(using: str, agent: AgentRecord) -> Any:
    row = SessionAgent.objects.using(using).filter(pk=agent.id).only(*_NAMED).first()
    if row is not None and (columns := corrupt_columns(row, "internal_state")):
        raise UnreadableStateError(corrupt_state(f"agent {agent.agent_id!r}", row, columns))
    return None if row is None else row.internal_state


def _of(using: str, rows: QuerySet[Any], agent: AgentRecord) -> QuerySet[Any]:
    return rows.using(using).filter(agent=agent.id).order_by()
