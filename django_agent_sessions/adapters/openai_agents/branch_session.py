"""Operations on the branch that a session object is on; they run in a database thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from django_agent_sessions.adapters.base import ConversationMemory, ConversationSession
from django_agent_sessions.exceptions import SessionConflictError, SessionNotFoundError
from django_agent_sessions.store import AppendSteps, BranchNames, BranchSummary, run_steps
from django_agent_sessions.values.records import AgentRecord, NewMessage, TurnCost, TurnCosts, Usage

R = TypeVar("R")


class CurrentBranch(NamedTuple):
    """The current branch of an object: its name, and the agent in whose conversation it was found.

    Without ``agent`` the branch is looked up by name in whichever conversation exists: the main
    branch, or a branch that a caller names for a single call.
    """

    name: str
    agent: UUID | None = None


INITIAL_BRANCH = CurrentBranch("main")
"""The initial branch of every object."""


class BranchMemory(ConversationMemory):
    """What an object knows of its conversation, and the branch that it is on."""

    def __init__(self) -> None:
        super().__init__()
        self.place = INITIAL_BRANCH


class BranchSession(ConversationSession):
    """A session whose object is on a branch.

    Each operation uses the branch that the object was on when the operation was called: ``place``.
    """

    memory_class = BranchMemory
    memory: BranchMemory

    @property
    def names(self) -> BranchNames:
        """The branches of the session by name."""
        return BranchNames(self.store)

    # --- the branch --------------------------------------------------------------------------

    def branch_of(self, agent: AgentRecord) -> AgentRecord | None:
        """Return the record of the object's branch; None if the branch does not exist."""
        return self.find_place(self.memory.place, agent)

    def find_place(self, place: CurrentBranch, agent: AgentRecord) -> AgentRecord | None:
        """Return the record of a branch; None if it does not exist."""
        if place.agent is None:
            return self.names.find(agent, place.name)
        # The conversation may have been deleted and created again.
        branch = self.names.follow(agent, place.name) if place.agent == agent.id else agent
        return self._reset_if_main(place, branch)

    def _reset_if_main(
        self, place: CurrentBranch, branch: AgentRecord | None
    ) -> AgentRecord | None:
        """Move the object to the main branch if its branch has been deleted with all others."""
        if branch is not None and branch.branch == 0 and self.memory.place is place:
            self.memory.place = INITIAL_BRANCH
        return branch

    def on_place(self, place: CurrentBranch, read: Callable[[AgentRecord], R | None]) -> R | None:
        """Read a branch; None if it does not exist."""

        def find_and_read(agent: AgentRecord) -> R | None:
            branch = self.find_place(place, agent)
            return None if branch is None else read(branch)

        return self.on_conversation(find_and_read)

    # --- items -------------------------------------------------------------------------------

    def append_on(
        self,
        place: CurrentBranch,
        items: Sequence[Any],
        run_id: UUID | None,
        spent: tuple[int, Usage] | None = None,
    ) -> None:
        """Append items to a branch; ``spent`` as in :meth:`append`."""

        def append(agent: AgentRecord) -> AppendSteps[list[Any]]:
            if place.agent != agent.id:
                return (yield from self.append_to(batch, run_id, agent))
            yield None
            return self._append_at(place, batch, run_id, agent)

        batch = self.prepare(items, spent)
        if not batch:
            return
        run_steps(self.using, self.write(append, batch, run_id))
        agent = self.recall()
        if agent is not None and place.agent != agent.id:
            self._reset_if_main(place, agent)

    def _append_at(
        self,
        place: CurrentBranch,
        batch: Sequence[NewMessage],
        run_id: UUID | None,
        agent: AgentRecord,
    ) -> list[Any]:
        def append() -> list[Any]:
            clean = self.clean_batch(agent, batch)
            branch, written = self.names.append(
                agent, place.name, clean, run_id=run_id, epoch=self.memory.known.epoch
            )
            self._reset_if_main(place, branch)
            self.memory.record_written(written, branch=branch.branch)
            return [record.message for record in written]

        return self.reload_if_stale(
            append, lambda: self.reload(self.names.follow(agent, place.name) or agent)
        )

    def pop_on(self, place: CurrentBranch) -> Any:
        """Remove the latest item of a branch and return it."""

        def pop(agent: AgentRecord) -> Any:
            name = place.name if place.agent in (None, agent.id) else INITIAL_BRANCH.name
            branch, taken = self.names.pop(agent, name)
            if branch is None or taken is None:
                return None
            self._reset_if_main(place, branch)
            self.memory.record_popped(taken, branch=branch.branch)
            return taken.payload

        return self.on_conversation(pop)

    def clear_all(self, agent: AgentRecord) -> int:
        """Delete all items of all branches."""
        # Redactions must be read before the deletion: a compaction writes items back.
        branch = self.branch_of(agent) or agent
        return self.reload_if_stale(
            lambda: self.names.clear(agent, epoch=self.memory.known.epoch),
            partial(self.reload, branch),
        )

    # --- branches ----------------------------------------------------------------------------

    def create_branch(self, place: CurrentBranch, turn: int, name: str | None) -> CurrentBranch:
        """Create a branch from the items before a turn."""
        agent = self.find()
        source = (
            place.name
            if agent is not None and place.agent in (None, agent.id)
            else INITIAL_BRANCH.name
        )
        default_name = f"branch_from_turn_{turn}_{int(time.time())}"
        try:
            if agent is None:
                raise SessionNotFoundError
            branch_name = self.names.create_at_turn(
                agent, source, turn, default_name if name is None else name, numbered=name is None
            )
        except SessionNotFoundError:
            if agent is not None:
                # The branch may have been deleted by a clear of the session.
                source = _name_of(place, self.find_place(place, agent))
            message = f"Turn {turn} does not contain a user message in branch '{source}'"
        except SessionConflictError:
            message = f"Branch ID '{name}' has already been used. Choose a new branch ID."
        else:
            return CurrentBranch(branch_name, agent.id)
        raise ValueError(message)

    def find_branch(self, name: str) -> CurrentBranch:
        """Find a branch that has items."""
        agent = self.find()
        branch = None if agent is None else self.names.find(agent, name)
        if branch is None or not self.names.has_messages(branch):
            raise ValueError(f"Branch '{name}' does not exist")
        return INITIAL_BRANCH if branch.branch == 0 else CurrentBranch(name, branch.id)

    def delete_branch(self, name: str) -> None:
        """Delete a branch with its items."""
        agent = self.find()
        try:
            if agent is None:
                raise SessionNotFoundError
            self.names.delete(agent, name)
        except SessionNotFoundError:
            pass
        else:
            return
        raise ValueError(f"Branch '{name}' does not exist")

    def list_branches(self, place: CurrentBranch) -> tuple[str, list[BranchSummary]] | None:
        """Return the name of the current branch, and all branches that have items."""

        def read(agent: AgentRecord) -> tuple[str, list[BranchSummary]]:
            name = _name_of(place, self.find_place(place, agent))
            return name, self.names.list(agent)

        return self.on_conversation(read)

    # --- usage -------------------------------------------------------------------------------

    def store_usage(
        self, place: CurrentBranch, cost: TurnCost, uncounted: Usage | None
    ) -> int | None:
        """Store the usage of the latest turn of a branch; return its number, if there is one."""

        def store(agent: AgentRecord) -> int | None:
            if place.agent not in (None, agent.id):
                return None
            return self.names.save_cost(agent, place.name, cost, uncounted=uncounted)

        return self.on_conversation(store)

    def total_usage(self, branch_id: str | None) -> TurnCosts | None:
        """Return the usage of the session, or of a branch."""

        def read(agent: AgentRecord) -> TurnCosts | None:
            if not branch_id:
                return self.store.turns.total(agent)
            branch = self.names.find(agent, branch_id)
            return None if branch is None else self.store.turns.total(agent, branch=branch.branch)

        return self.on_conversation(read)


def _name_of(place: CurrentBranch, branch: AgentRecord | None) -> str:
    return INITIAL_BRANCH.name if branch is not None and branch.branch == 0 else place.name
