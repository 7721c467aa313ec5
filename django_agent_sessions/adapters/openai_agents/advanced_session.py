"""A session with branches, turns and usage: the SDK's ``AdvancedSQLiteSession`` on any database."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, TypeVar, cast

from agents import RunContextWrapper, TResponseInputItem
from agents.result import RunResult, RunResultStreaming
from django.db import Error

from django_agent_sessions.adapters.base import ConversationSession
from django_agent_sessions.exceptions import AgentSessionsError
from django_agent_sessions.store import Turns
from django_agent_sessions.values.records import AgentRecord

from .branch_session import INITIAL_BRANCH, BranchMemory, BranchSession, CurrentBranch
from .fifo_lock import FifoLock
from .session import DjangoSession, resolve_limit, resolve_turn_limit
from .turn_queries import (
    contains_text,
    cost_as_dict,
    describe_turns,
    group_by_turn,
    timestamp,
    tool_usage,
    turn_cost,
)

logger = logging.getLogger("django_agent_sessions")

R = TypeVar("R")

_Context = RunContextWrapper[Any]


class AdvancedDjangoSession(DjangoSession):
    """A :class:`~.session.DjangoSession` with branches, turns and usage.

    It has the methods of the SDK's ``AdvancedSQLiteSession``, with the same names and results, on
    every database and for several processes at once. Each object is on a branch, at first on
    ``"main"``; another object or process may be on another branch.

    Its arguments and errors are those of :class:`~.session.DjangoSession`. ``branch_id=None`` is
    the current branch, and ``wrapper`` the context of a run, for a callable owner.
    """

    _session_class = BranchSession
    _memory: BranchMemory

    @cached_property
    def _queue(self) -> FifoLock:
        return FifoLock()

    async def _ask(self, operate: Callable[[BranchSession], R], wrapper: _Context | None) -> R:
        # `_session_class` guarantees the type.
        return await self._run(cast("Callable[[ConversationSession], R]", operate), wrapper)

    async def _read(
        self,
        branch_id: str | None,
        read: Callable[[Turns, AgentRecord], R | None],
        wrapper: _Context | None,
    ) -> R | None:
        """Read a branch, by default the object's current one; None if it does not exist."""
        place = self._place_of(branch_id)
        return await self._ask(
            lambda session: session.on_place(place, partial(read, session.store.turns)), wrapper
        )

    def _place_of(self, branch_id: str | None) -> CurrentBranch:
        return self._memory.place if branch_id is None else CurrentBranch(branch_id)

    # --- items --------------------------------------------------------------------------------

    async def get_items(
        self,
        limit: int | None = None,
        branch_id: str | None = None,
        *,
        turn_limit: int | None = None,
        wrapper: _Context | None = None,
    ) -> list[TResponseInputItem]:
        """Return the conversation on a branch, oldest item first; empty if there is no such branch.

        ``limit`` returns the latest items only: 0 none, a negative one all, and None the number in
        ``session_settings``; ``turn_limit`` the latest turns only.
        """
        latest = resolve_limit(limit, self.session_settings)
        turns = resolve_turn_limit(turn_limit, self.session_settings)
        read = self._reader(wrapper, latest, turns)
        if 0 in (latest, turns):
            return []
        place = self._place_of(branch_id)
        result = await self._ask(
            lambda session: session.on_place(place, partial(read, session)), wrapper
        )
        return result or []

    async def add_items(
        self, items: list[TResponseInputItem], *, wrapper: _Context | None = None
    ) -> None:
        """Append items to the branch: all of them or none."""
        if not items:
            return
        place, batch = self._memory.place, list(items)
        run_id = self._run_id(wrapper)
        spent = self._usage.of_items(batch, wrapper)
        async with self._queue.turn():
            await self._ask(lambda session: session.append_on(place, batch, run_id, spent), wrapper)
        self._usage.mark_stored(wrapper, None if spent is None else spent[1])

    async def pop_item(self, *, wrapper: _Context | None = None) -> TResponseInputItem | None:
        """Remove the latest item of the branch and return it; no two callers get the same item.

        The other branches keep it. The last item of a turn is removed with the usage of the turn.
        """
        place = self._memory.place
        async with self._queue.turn():
            item: TResponseInputItem | None = await self._ask(
                lambda session: session.pop_on(place), wrapper
            )
        return item

    async def clear_session(self, *, wrapper: _Context | None = None) -> None:
        """Delete all items of all branches, and all usage; the session stays.

        All objects are on the main branch afterwards. The names of the branches stay reserved.
        """
        await super().clear_session(wrapper=wrapper)
        self._memory.place = INITIAL_BRANCH

    # --- branches -----------------------------------------------------------------------------

    async def create_branch_from_turn(
        self,
        turn_number: int,
        branch_name: str | None = None,
        *,
        wrapper: _Context | None = None,
    ) -> str:
        """Create a branch from the messages before a turn, switch to it and return its name.

        Turns are numbered from 1. Raises ``ValueError`` if the turn does not exist, or if the name
        is blank or was used before; by default a name is generated.
        """
        if branch_name is not None and not branch_name.strip():
            raise ValueError("Branch name cannot be empty")
        place = self._memory.place
        created = await self._ask(
            lambda session: session.create_branch(place, turn_number, branch_name), wrapper
        )
        self._memory.place = created
        logger.debug("created a branch of session %s at turn %s", self.session_id, turn_number)
        return created.name

    async def create_branch_from_content(
        self,
        search_term: str,
        branch_name: str | None = None,
        *,
        wrapper: _Context | None = None,
    ) -> str:
        """Create a branch before the first turn whose text contains ``search_term``.

        See `create_branch_from_turn`. Raises ``ValueError`` if no turn contains the text.
        """
        turns = await self.find_turns_by_content(search_term, wrapper=wrapper)
        if not turns:
            raise ValueError(f"No user turns found containing '{search_term}'")
        return await self.create_branch_from_turn(turns[0]["turn"], branch_name, wrapper=wrapper)

    async def switch_to_branch(self, branch_id: str, *, wrapper: _Context | None = None) -> None:
        """Switch to another branch; raise ``ValueError`` if it does not exist or is empty."""
        self._memory.place = await self._ask(
            lambda session: session.find_branch(branch_id), wrapper
        )

    async def delete_branch(
        self, branch_id: str, force: bool = False, *, wrapper: _Context | None = None
    ) -> None:
        """Delete a branch with its items and usage; its name stays reserved.

        The current branch is deleted only with ``force``, which switches to the main branch. Raises
        ``ValueError`` for the main branch, and for a branch that does not exist.
        """
        if not branch_id or not branch_id.strip():
            raise ValueError("Branch ID cannot be empty")
        if branch_id == INITIAL_BRANCH.name:
            raise ValueError("Cannot delete the 'main' branch")
        if branch_id == self._memory.place.name:
            if not force:
                raise ValueError(
                    f"Cannot delete current branch '{branch_id}'. Use force=True or switch "
                    "branches first"
                )
            await self._ask(lambda session: session.find_branch(branch_id), wrapper)
            await self.switch_to_branch(INITIAL_BRANCH.name, wrapper=wrapper)
        async with self._queue.turn():
            await self._ask(lambda session: session.delete_branch(branch_id), wrapper)

    async def list_branches(self, *, wrapper: _Context | None = None) -> list[dict[str, Any]]:
        """List the branches that have items, in the order of their creation."""
        place = self._memory.place
        result = await self._ask(lambda session: session.list_branches(place), wrapper)
        current, branches = result or (INITIAL_BRANCH.name, [])
        return [
            {
                "branch_id": branch.name,
                "message_count": branch.size.messages,
                "user_turns": branch.size.turns,
                "is_current": branch.name == current,
                "created_at": timestamp(branch.created_at),
            }
            for branch in branches
        ]

    # --- turns --------------------------------------------------------------------------------

    async def get_conversation_turns(
        self, branch_id: str | None = None, *, wrapper: _Context | None = None
    ) -> list[dict[str, Any]]:
        """List the user's messages, with the numbers of their turns to branch from."""
        turns = await self._read(branch_id, Turns.list, wrapper)
        return describe_turns(turns or [], shortened=True)

    async def find_turns_by_content(
        self,
        search_term: str,
        branch_id: str | None = None,
        *,
        wrapper: _Context | None = None,
    ) -> list[dict[str, Any]]:
        """Find the user's messages that contain a text; the case of ASCII letters is ignored."""
        turns = await self._read(branch_id, Turns.list, wrapper)
        matches = [turn for turn in turns or [] if contains_text(search_term, turn.payload)]
        return describe_turns(matches, shortened=False)

    async def get_conversation_by_turns(
        self, branch_id: str | None = None, *, wrapper: _Context | None = None
    ) -> dict[int, list[dict[str, str | None]]]:
        """Return the types and tool names of the items of each turn."""
        items = await self._read(branch_id, Turns.items, wrapper)
        return group_by_turn(items or [])

    async def get_tool_usage(
        self, branch_id: str | None = None, *, wrapper: _Context | None = None
    ) -> list[tuple[str, int, int]]:
        """Count the calls of tools: tool name, number of calls and turn."""
        items = await self._read(branch_id, Turns.items, wrapper)
        return tool_usage(items or [])

    # --- usage --------------------------------------------------------------------------------

    async def store_run_usage(
        self, result: RunResult | RunResultStreaming, *, wrapper: _Context | None = None
    ) -> None:
        """Store the usage of a run as the usage of the branch's latest turn.

        It logs database errors and a legal hold and does not raise them, because the run is over.
        """
        usage = result.context_wrapper.usage
        if usage is None:
            return
        place, cost = self._memory.place, turn_cost(usage)
        async with self._queue.turn():
            uncounted = self._usage.not_stored(result.context_wrapper)
            try:
                turn = await self._ask(
                    lambda session: session.store_usage(place, cost, uncounted),
                    wrapper or result.context_wrapper,
                )
                if turn is not None and uncounted is not None:
                    self._usage.mark_stored(result.context_wrapper, uncounted)
            except (AgentSessionsError, Error) as error:
                logger.warning(
                    "the usage of a run of session %s was not stored: %s",
                    self.session_id,
                    type(error).__name__,
                )

    async def get_session_usage(
        self, branch_id: str | None = None, *, wrapper: _Context | None = None
    ) -> dict[str, int] | None:
        """Return the total usage of the session, or of a branch; None if none was stored."""
        total = await self._ask(lambda session: session.total_usage(branch_id), wrapper)
        if total is None:
            return None
        return {
            "requests": total.requests,
            "input_tokens": total.input_tokens,
            "output_tokens": total.output_tokens,
            "total_tokens": total.total_tokens,
            "total_turns": total.turns,
        }

    async def get_turn_usage(
        self,
        user_turn_number: int | None = None,
        branch_id: str | None = None,
        *,
        wrapper: _Context | None = None,
    ) -> list[dict[str, Any]] | dict[str, Any]:
        """Return the usage of each turn, or of one turn; empty if none was stored."""
        read = partial(Turns.costs, turn=user_turn_number)
        costs = await self._read(branch_id, read, wrapper) or []
        if user_turn_number is not None:
            return cost_as_dict(costs[0]) if costs else {}
        return [{"user_turn_number": cost.turn, **cost_as_dict(cost)} for cost in costs]
