"""Branches by their names, for an SDK that says by name where its conversation goes on.

A name is given once in a conversation, so that whoever still goes by it never meets another branch.
The agent's internal state remembers the names of branches that are gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import count
from typing import Any, NamedTuple
from uuid import UUID

from django_agent_sessions import notifying
from django_agent_sessions.blobs import drop_messages, in_use
from django_agent_sessions.exceptions import (
    SessionConflictError,
    SessionNotFoundError,
    StaleSessionError,
)
from django_agent_sessions.models import (
    MAIN_BRANCH,
    Session,
    SessionAgent,
    SessionMessage,
    TurnUsage,
)
from django_agent_sessions.querysets import RowQuerySet
from django_agent_sessions.records import (
    AgentRecord,
    BranchSize,
    MessageRecord,
    PlacedPayload,
    TurnCost,
    Usage,
)

from . import SessionStore
from .base import repeatable
from .branching import MAIN_NAME
from .moments import BRANCH_NAMES
from .turns import USER


class NamedBranch(NamedTuple):
    """A branch that has messages."""

    name: str
    created_at: datetime
    size: BranchSize


class NamedBranchStore(SessionStore):
    """A store that knows branches by name; there is nothing async in it."""

    @repeatable
    def named_branch(self, agent: AgentRecord, name: str) -> AgentRecord | None:
        """Finds a branch."""
        if name == MAIN_NAME:
            return agent.on_branch(MAIN_BRANCH)
        found = self._branch_rows(agent).filter(name=name).values_list("number", flat=True)
        number = found.first()
        return None if number is None else agent.on_branch(number)

    def follow(self, agent: AgentRecord, name: str) -> AgentRecord | None:
        """Finds the branch that somebody was on, who may not know what happened since."""
        found = self.named_branch(agent, name)
        if found is None and name in _gone(self._state(agent), "cleared"):
            return agent.on_branch(MAIN_BRANCH)
        return found

    @repeatable
    def named_branches(self, agent: AgentRecord) -> list[NamedBranch]:
        """Lists the branches that have messages."""
        sizes = self.branch_sizes(agent)
        rows = self._branch_rows(agent).values_list("number", "name", "created_at")
        found = [(created_at, number, name) for number, name, created_at in rows if number in sizes]
        if MAIN_BRANCH in sizes:
            found.append((sizes[MAIN_BRANCH].first_at, MAIN_BRANCH, MAIN_NAME))
        return [
            NamedBranch(name, created_at, sizes[number])
            for created_at, number, name in sorted(found)
        ]

    @repeatable
    def has_messages(self, agent: AgentRecord) -> bool:
        """Tells whether there is anything on a branch."""
        return self._messages(agent).exists()

    def append_to(
        self,
        agent: AgentRecord,
        name: str,
        messages: Sequence[Any],
        *,
        run_id: UUID | None = None,
        epoch: int | None = None,
    ) -> tuple[AgentRecord, list[MessageRecord]]:
        """Writes messages behind the last one of a branch, as :meth:`append_many` does.

        A branch that was deleted meanwhile is begun anew: what was said is not lost, and does not
        come into another conversation.
        """
        what = f"appending to a branch of agent {agent.agent_id!r}"

        def append(session: Session) -> tuple[AgentRecord, list[MessageRecord]]:
            found = self.follow(agent, name)
            if found is None:
                made = self.create_branch(agent, name=name, upto=0)
                found = agent.on_branch(made.number)
            return found, self.append_many(found, messages, run_id=run_id, epoch=epoch)

        return self._alone(agent, append, what)

    def pop_from(
        self, agent: AgentRecord, name: str
    ) -> tuple[AgentRecord | None, PlacedPayload | None]:
        """Takes the last message of a branch away, and what its turn has cost with its last one."""
        what = f"popping from a branch of agent {agent.agent_id!r}"

        def pop(session: Session) -> tuple[AgentRecord | None, PlacedPayload | None]:
            found = self.follow(agent, name)
            taken = None if found is None else self.pop_placed(found)
            if found is not None and taken is not None:
                self._forget_costs(found, taken.position)
            return found, taken

        try:
            return self._alone(agent, pop, what)
        except SessionNotFoundError:
            return None, None

    def clear_all(self, agent: AgentRecord, *, epoch: int | None = None) -> int:
        """Deletes all messages of an agent, all branches, and what their turns have cost."""
        what = f"clearing agent {agent.agent_id!r}"

        def clear(session: Session) -> int:
            if epoch is not None and session.redaction_epoch != epoch:
                raise StaleSessionError(f"{what}: something was redacted; read it again")
            names = list(self._branch_rows(agent).values_list("name", flat=True))
            # It looks for a legal hold itself.
            deleted = self._of(SessionMessage.objects.all(), agent).delete()[0]
            self._of(TurnUsage.objects.all(), agent).delete()
            if names:
                self._branch_rows(agent).delete()
            self._forget(agent, names, cleared=True)
            if deleted:
                self._count(agent, Usage(messages=-deleted))
            if deleted and in_use():
                drop_messages(self.using, agent.session)
            return deleted

        try:
            deleted = self._alone(agent, clear, what)
        except SessionNotFoundError:
            return 0
        if deleted:
            notifying.written(self.using, agent.session)
        return deleted

    def branch_at_turn(
        self, agent: AgentRecord, source: str, turn: int, name: str, *, numbered: bool = False
    ) -> str:
        """Makes a branch that begins with what was said before a turn."""
        what = f"branching agent {agent.agent_id!r} at turn {turn}"

        def create(session: Session) -> str:
            found = self.follow(agent, source)
            position = None if found is None else self._turn_at(found, turn)
            if found is None or position is None:
                raise SessionNotFoundError(f"{what}: there is no such turn")
            free = self._free_name(agent, name, numbered)
            if free is None:
                raise SessionConflictError(f"{what}: the name was given before")
            self.create_branch(agent, name=free, source=found.branch, upto=position)
            return free

        return self._alone(agent, create, what)

    def drop_branch(self, agent: AgentRecord, name: str) -> int:
        """Deletes a branch that has messages, and what its turns have cost; its name stays taken."""
        what = f"deleting a branch of agent {agent.agent_id!r}"

        def drop(session: Session) -> int:
            found = self.named_branch(agent, name)
            if found is None or not self._messages(found).exists():
                raise SessionNotFoundError(f"{what}: there is no such branch")
            deleted = self.delete_branch(agent, found.branch)
            self._forget(agent, [name])
            return deleted

        return self._alone(agent, drop, what)

    def store_cost_of(self, agent: AgentRecord, name: str, cost: TurnCost) -> int | None:
        """Writes what the latest turn of a branch has cost, as :meth:`store_turn_cost` does."""
        what = f"storing the usage of agent {agent.agent_id!r}"

        def store(session: Session) -> int | None:
            found = self.named_branch(agent, name)
            return None if found is None else self.store_turn_cost(found, cost)

        try:
            return self._alone(agent, store, what)
        except SessionNotFoundError:
            return None

    def _turn_at(self, agent: AgentRecord, turn: int) -> int | None:
        if turn < 1:
            return None
        rows = self._messages(agent).filter(USER).values_list("message_id", flat=True)
        return next(iter(rows[turn - 1 : turn]), None)

    def _free_name(self, agent: AgentRecord, name: str, numbered: bool) -> str | None:
        state = self._state(agent)
        taken = {MAIN_NAME, *_gone(state, "deleted"), *_gone(state, "cleared")}
        taken.update(self._branch_rows(agent).values_list("name", flat=True))
        return next((each for each in _names(name, numbered) if each not in taken), None)

    def _forget(self, agent: AgentRecord, names: Sequence[str], *, cleared: bool = False) -> None:
        """Remembers the names of branches that are gone from now on."""
        state = self._state(agent)
        gone = {kind: _gone(state, kind) for kind in ("deleted", "cleared")}
        if cleared:
            names = [*gone["deleted"], *names]
            gone["deleted"] = []
        kind = "cleared" if cleared else "deleted"
        gone[kind] = list(dict.fromkeys([*gone[kind], *names]))
        if names and isinstance(state, dict):
            self._agents().filter(pk=agent.id).update(internal_state={**state, BRANCH_NAMES: gone})

    def _state(self, agent: AgentRecord) -> Any:
        rows = SessionAgent.objects.using(self.using).filter(pk=agent.id)
        return rows.values_list("internal_state", flat=True).first()

    def _of(self, rows: RowQuerySet[Any], agent: AgentRecord) -> RowQuerySet[Any]:
        return rows.using(self.using).filter(agent=agent.id).order_by()


def _names(name: str, numbered: bool) -> Iterator[str]:
    yield name
    if numbered:
        yield from (f"{name}_{number}" for number in count(2))


def _gone(state: Any, kind: str) -> list[str]:
    names = state.get(BRANCH_NAMES) if isinstance(state, dict) else None
    found = names.get(kind) if isinstance(names, dict) else None
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []
