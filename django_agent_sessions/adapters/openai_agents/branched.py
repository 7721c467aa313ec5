"""Where a session's object is, and what its operations do there in the database's thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeVar, cast
from uuid import UUID

from agents import RunContextWrapper, TResponseInputItem

from django_agent_sessions.exceptions import (
    SessionConflictError,
    SessionNotFoundError,
    StaleSessionError,
)
from django_agent_sessions.records import AgentRecord, TurnCost, TurnCosts
from django_agent_sessions.store import SessionStore
from django_agent_sessions.store.branch_names import NamedBranch, NamedBranchStore

from .order import Queue
from .rewording import item_at, redacted
from .session import MOST_REDACTIONS, DjangoSession

R = TypeVar("R")
_Context = RunContextWrapper[Any]


class Place(NamedTuple):
    """Where an object is: a branch's name, and the agent in whose conversation it was found.

    The main branch, and one that a caller names for once, are the same in any conversation.
    """

    name: str
    agent: UUID | None = None


MAIN = Place("main")
"""Where every object begins."""


class BranchedSession(DjangoSession):
    """A session whose object is on a branch.

    What happens in an operation is about the branch that the object was on when it was called.
    """

    _store_class = NamedBranchStore
    _place = MAIN

    @cached_property
    def _queue(self) -> Queue:
        return Queue()

    async def _ask(
        self, operate: Callable[[NamedBranchStore, AgentRecord], R | None], wrapper: _Context | None
    ) -> R | None:
        """Works on the conversation, if there is one."""

        def work(store: SessionStore) -> R | None:
            return self._try(store, partial(operate, _by_name(store)))

        return await self._run(work, wrapper)

    async def _on(
        self,
        branch_id: str | None,
        read: Callable[[NamedBranchStore, AgentRecord], R | None],
        wrapper: _Context | None,
    ) -> R | None:
        """Reads a branch, by default the one that the object is on; None if there is none."""
        place = self._place if branch_id is None else Place(branch_id)

        def find_and_read(store: NamedBranchStore, agent: AgentRecord) -> R | None:
            found = self._find_place(place, store, agent)
            return None if found is None else read(store, found)

        return await self._ask(find_and_read, wrapper)

    # --- what runs in the database's thread --------------------------------------------------

    def _find_place(
        self, place: Place, store: NamedBranchStore, agent: AgentRecord
    ) -> AgentRecord | None:
        if place.agent is None:
            return store.named_branch(agent, place.name)
        # The conversation may have been deleted and begun anew.
        found = store.follow(agent, place.name) if place.agent == agent.id else agent
        return self._followed(place, found)

    def _followed(self, place: Place, found: AgentRecord | None) -> AgentRecord | None:
        """Notes that the branch went with all others."""
        if found is not None and found.branch == 0 and self._place is place:
            self._place = MAIN
        return found

    def _add(
        self,
        place: Place,
        items: Sequence[TResponseInputItem],
        run_id: UUID | None,
        store: SessionStore,
    ) -> None:
        def append(agent: AgentRecord) -> None:
            if place.agent == agent.id:
                self._append_at(place, items, run_id, _by_name(store), agent)
            else:
                self._append_to(items, run_id, store, self._followed(place, agent) or agent)

        self._write(append, items, store)

    def _append_at(
        self,
        place: Place,
        items: Sequence[TResponseInputItem],
        run_id: UUID | None,
        store: NamedBranchStore,
        agent: AgentRecord,
    ) -> None:
        def append() -> None:
            clean = [self._memory.clean(item) for item in items]
            found, written = store.append_to(
                agent, place.name, clean, run_id=run_id, epoch=self._memory.epoch
            )
            self._followed(place, found)
            self._memory.has_written(
                ((record.message_id, record.message) for record in written), branch=found.branch
            )

        for _ in range(MOST_REDACTIONS):
            try:
                return append()
            except StaleSessionError:
                self._catch_up(store, store.follow(agent, place.name) or agent)
        return append()

    def _pop_at(self, place: Place, store: NamedBranchStore, agent: AgentRecord) -> Any:
        name = place.name if place.agent in (None, agent.id) else MAIN.name
        found, taken = store.pop_from(agent, name)
        if found is None or taken is None:
            return None
        self._followed(place, found)
        self._memory.has_popped(taken, branch=found.branch)
        return taken.payload

    def _clear(self, store: SessionStore) -> None:
        def clear(agent: AgentRecord) -> int | None:
            # What was redacted has to be known before it is gone: a compaction puts items back.
            named = _by_name(store)
            at = self._find_place(self._place, named, agent) or agent
            deleted = self._at_epoch(
                store, at, lambda: named.clear_all(agent, epoch=self._memory.epoch)
            )
            return deleted or None

        self._try(store, clear)

    def _redact(
        self,
        position: int,
        replacement: Mapping[str, Any] | str,
        actor: Any,
        reason: str,
        store: SessionStore,
    ) -> None:
        agent = self._find(store)
        at = None if agent is None else self._find_place(self._place, _by_name(store), agent)
        found = None if at is None else item_at(position, at, store)
        if at is None or found is None:
            raise SessionNotFoundError(f"session {self.session_id!r} has no item {position}")
        item = redacted(found, replacement)
        # Its copies on other branches go with it.
        store.redact_message(at, found.message_id, item, key=found.id, actor=actor, reason=reason)

    def _make_branch(self, place: Place, turn: int, name: str | None, store: SessionStore) -> Place:
        agent = self._find(store)
        source = place.name if agent is not None and place.agent in (None, agent.id) else MAIN.name
        made = f"branch_from_turn_{turn}_{int(time.time())}"
        try:
            if agent is None:
                raise SessionNotFoundError
            found = _by_name(store).branch_at_turn(
                agent, source, turn, made if name is None else name, numbered=name is None
            )
        except SessionNotFoundError:
            if agent is not None:
                # The branch may have gone with all others, when somebody cleared the session.
                source = self._name_of(place, self._find_place(place, _by_name(store), agent))
            message = f"Turn {turn} does not contain a user message in branch '{source}'"
        except SessionConflictError:
            message = f"Branch ID '{name}' has already been used. Choose a new branch ID."
        else:
            return Place(found, agent.id)
        raise ValueError(message)

    def _find_branch(self, name: str, store: SessionStore) -> Place:
        agent = self._find(store)
        found = None if agent is None else _by_name(store).named_branch(agent, name)
        if found is None or not _by_name(store).has_messages(found):
            raise ValueError(f"Branch '{name}' does not exist")
        return MAIN if name == MAIN.name else Place(name, found.id)

    def _delete_branch(self, name: str, store: SessionStore) -> None:
        agent = self._find(store)
        try:
            if agent is None:
                raise SessionNotFoundError
            _by_name(store).drop_branch(agent, name)
        except SessionNotFoundError:
            pass
        else:
            return
        raise ValueError(f"Branch '{name}' does not exist")

    def _list_branches(
        self, place: Place, store: NamedBranchStore, agent: AgentRecord
    ) -> tuple[str, list[NamedBranch]]:
        found = self._find_place(place, store, agent)
        return self._name_of(place, found), store.named_branches(agent)

    def _name_of(self, place: Place, found: AgentRecord | None) -> str:
        return MAIN.name if found is not None and found.branch == 0 else place.name

    def _store_usage(
        self, place: Place, cost: TurnCost, store: NamedBranchStore, agent: AgentRecord
    ) -> int | None:
        if place.agent not in (None, agent.id):
            return None
        return store.store_cost_of(agent, place.name, cost)

    def _total_usage(
        self, branch_id: str | None, store: NamedBranchStore, agent: AgentRecord
    ) -> TurnCosts | None:
        if not branch_id:
            return store.total_cost(agent)
        found = store.named_branch(agent, branch_id)
        return None if found is None else store.total_cost(agent, branch=found.branch)


def _by_name(store: SessionStore) -> NamedBranchStore:
    # It was made as the class says.
    return cast(NamedBranchStore, store)
