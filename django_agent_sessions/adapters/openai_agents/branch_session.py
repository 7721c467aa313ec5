"""Operations of a session object on its current branch; they run in a database thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from agents import RunContextWrapper, TResponseInputItem

from django_agent_sessions.exceptions import (
    SessionConflictError,
    SessionNotFoundError,
    StaleSessionError,
)
from django_agent_sessions.store import BranchNames, BranchSummary, SessionStore, Turns
from django_agent_sessions.values.records import AgentRecord, TurnCost, TurnCosts

from .fifo_lock import FifoLock
from .item_redaction import item_at, redact_openai_item
from .session import MAX_RELOADS, DjangoSession

R = TypeVar("R")
_Context = RunContextWrapper[Any]


class CurrentBranch(NamedTuple):
    """The current branch of an object: its name, and the agent in whose conversation it was found.

    Without ``agent`` the branch is looked up by name in whichever conversation exists: the main
    branch, or a branch that a caller names for a single call.
    """

    name: str
    agent: UUID | None = None


INITIAL_BRANCH = CurrentBranch("main")
"""The initial branch of every object."""


class BranchedSession(DjangoSession):
    """A session whose object is on a branch.

    Each operation uses the branch that the object was on when the operation was called.
    """

    _place = INITIAL_BRANCH

    @cached_property
    def _queue(self) -> FifoLock:
        return FifoLock()

    async def _ask(
        self, operate: Callable[[BranchNames, AgentRecord], R | None], wrapper: _Context | None
    ) -> R | None:
        """Run an operation on the conversation, if it exists."""

        def work(store: SessionStore) -> R | None:
            return self._run_if_exists(store, partial(operate, BranchNames(store)))

        return await self._run(work, wrapper)

    async def _read_branch(
        self,
        branch_id: str | None,
        read: Callable[[Turns, AgentRecord], R | None],
        wrapper: _Context | None,
    ) -> R | None:
        """Read a branch, by default the object's current one; None if it does not exist."""
        place = self._place if branch_id is None else CurrentBranch(branch_id)

        def find_and_read(names: BranchNames, agent: AgentRecord) -> R | None:
            branch = self._find_place(place, names, agent)
            return None if branch is None else read(names.store.turns, branch)

        return await self._ask(find_and_read, wrapper)

    # --- what runs in the database's thread --------------------------------------------------

    def _find_place(
        self, place: CurrentBranch, names: BranchNames, agent: AgentRecord
    ) -> AgentRecord | None:
        if place.agent is None:
            return names.find(agent, place.name)
        # The conversation may have been deleted and created again.
        branch = names.follow(agent, place.name) if place.agent == agent.id else agent
        return self._reset_if_main(place, branch)

    def _reset_if_main(
        self, place: CurrentBranch, branch: AgentRecord | None
    ) -> AgentRecord | None:
        """Move the object to the main branch if its branch has been deleted with all others."""
        if branch is not None and branch.branch == 0 and self._place is place:
            self._place = INITIAL_BRANCH
        return branch

    def _append_items(
        self,
        place: CurrentBranch,
        items: Sequence[TResponseInputItem],
        run_id: UUID | None,
        store: SessionStore,
    ) -> None:
        def append(agent: AgentRecord) -> None:
            if place.agent == agent.id:
                self._append_at(place, items, run_id, BranchNames(store), agent)
            else:
                self._append_to(items, run_id, store, self._reset_if_main(place, agent) or agent)

        self._write(append, items, store)

    def _append_at(
        self,
        place: CurrentBranch,
        items: Sequence[TResponseInputItem],
        run_id: UUID | None,
        names: BranchNames,
        agent: AgentRecord,
    ) -> None:
        def append() -> None:
            clean = [self._memory.clean(item) for item in items]
            branch, written = names.append(
                agent, place.name, clean, run_id=run_id, epoch=self._memory.epoch
            )
            self._reset_if_main(place, branch)
            self._memory.record_written(
                ((record.message_id, record.message) for record in written), branch=branch.branch
            )

        for _ in range(MAX_RELOADS):
            try:
                return append()
            except StaleSessionError:
                self._catch_up(names.store, names.follow(agent, place.name) or agent)
        return append()

    def _pop_at(self, place: CurrentBranch, names: BranchNames, agent: AgentRecord) -> Any:
        name = place.name if place.agent in (None, agent.id) else INITIAL_BRANCH.name
        branch, taken = names.pop(agent, name)
        if branch is None or taken is None:
            return None
        self._reset_if_main(place, branch)
        self._memory.record_popped(taken, branch=branch.branch)
        return taken.payload

    def _clear(self, store: SessionStore) -> None:
        def clear(agent: AgentRecord) -> int | None:
            # Redactions must be read before the deletion: a compaction writes items back.
            names = BranchNames(store)
            branch = self._find_place(self._place, names, agent) or agent
            deleted = self._at_epoch(
                store, branch, lambda: names.clear(agent, epoch=self._memory.epoch)
            )
            return deleted or None

        self._run_if_exists(store, clear)

    def _redact(
        self,
        position: int,
        replacement: Mapping[str, Any] | str,
        actor: Any,
        reason: str,
        store: SessionStore,
    ) -> None:
        agent = self._find(store)
        branch = None if agent is None else self._find_place(self._place, BranchNames(store), agent)
        record = None if branch is None else item_at(position, branch, store)
        if branch is None or record is None:
            raise SessionNotFoundError(f"session {self.session_id!r} has no item {position}")
        item = redact_openai_item(record, replacement)
        # Also redacts its copies on other branches.
        store.messages.redact(
            branch, record.message_id, item, key=record.id, actor=actor, reason=reason
        )

    def _make_branch(
        self, place: CurrentBranch, turn: int, name: str | None, store: SessionStore
    ) -> CurrentBranch:
        agent = self._find(store)
        source = (
            place.name
            if agent is not None and place.agent in (None, agent.id)
            else INITIAL_BRANCH.name
        )
        default_name = f"branch_from_turn_{turn}_{int(time.time())}"
        try:
            if agent is None:
                raise SessionNotFoundError
            branch_name = BranchNames(store).create_at_turn(
                agent, source, turn, default_name if name is None else name, numbered=name is None
            )
        except SessionNotFoundError:
            if agent is not None:
                # The branch may have been deleted by a clear of the session.
                source = self._name_of(place, self._find_place(place, BranchNames(store), agent))
            message = f"Turn {turn} does not contain a user message in branch '{source}'"
        except SessionConflictError:
            message = f"Branch ID '{name}' has already been used. Choose a new branch ID."
        else:
            return CurrentBranch(branch_name, agent.id)
        raise ValueError(message)

    def _find_branch(self, name: str, store: SessionStore) -> CurrentBranch:
        agent = self._find(store)
        branch = None if agent is None else BranchNames(store).find(agent, name)
        if branch is None or not BranchNames(store).has_messages(branch):
            raise ValueError(f"Branch '{name}' does not exist")
        return INITIAL_BRANCH if name == INITIAL_BRANCH.name else CurrentBranch(name, branch.id)

    def _delete_branch(self, name: str, store: SessionStore) -> None:
        agent = self._find(store)
        try:
            if agent is None:
                raise SessionNotFoundError
            BranchNames(store).delete(agent, name)
        except SessionNotFoundError:
            pass
        else:
            return
        raise ValueError(f"Branch '{name}' does not exist")

    def _list_branches(
        self, place: CurrentBranch, names: BranchNames, agent: AgentRecord
    ) -> tuple[str, list[BranchSummary]]:
        branch = self._find_place(place, names, agent)
        return self._name_of(place, branch), names.list(agent)

    def _name_of(self, place: CurrentBranch, branch: AgentRecord | None) -> str:
        return INITIAL_BRANCH.name if branch is not None and branch.branch == 0 else place.name

    def _store_usage(
        self, place: CurrentBranch, cost: TurnCost, names: BranchNames, agent: AgentRecord
    ) -> int | None:
        if place.agent not in (None, agent.id):
            return None
        return names.save_cost(agent, place.name, cost)

    def _total_usage(
        self, branch_id: str | None, names: BranchNames, agent: AgentRecord
    ) -> TurnCosts | None:
        if not branch_id:
            return names.store.turns.total(agent)
        branch = names.find(agent, branch_id)
        return None if branch is None else names.store.turns.total(agent, branch=branch.branch)
