"""A session with branches, turns and usage: what the SDK has for SQLite, on any database."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

from agents import RunContextWrapper, TResponseInputItem
from agents.memory.session_settings import resolve_session_limit
from agents.result import RunResult, RunResultStreaming
from django.db import Error

from django_agent_sessions.exceptions import AgentSessionsError
from django_agent_sessions.ids import new_id
from django_agent_sessions.store.branch_names import NamedBranchStore

from .branched import MAIN, BranchedSession
from .turns import by_turns, cost_of, described, finds, timestamp, tool_usage, used

logger = logging.getLogger("django_agent_sessions")

_Context = RunContextWrapper[Any]


class AdvancedDjangoSession(BranchedSession):
    """A :class:`~.session.DjangoSession` with branches, turns and usage.

    It has the methods of the SDK's ``AdvancedSQLiteSession``, with the same names and results, on
    every database, and for several processes at once. Each object is on a branch, at first on
    ``"main"``; another object, or process, may be on another one.

    The arguments are those of :class:`~.session.DjangoSession`, and so is what it raises besides.
    """

    # --- items --------------------------------------------------------------------------------

    async def get_items(
        self,
        limit: int | None = None,
        branch_id: str | None = None,
        *,
        wrapper: _Context | None = None,
    ) -> list[TResponseInputItem]:
        """Reads the conversation on a branch."""
        latest = resolve_session_limit(limit, self.session_settings)
        if latest == 0:
            return []
        latest = None if latest is None or latest < 0 else latest
        found = await self._on(branch_id, partial(self._read_from, latest), wrapper) or []
        return self._given(found, latest, wrapper)

    async def add_items(
        self, items: list[TResponseInputItem], *, wrapper: _Context | None = None
    ) -> None:
        """Writes items behind the last one of the branch: all of them or none."""
        if not items:
            return
        place, items = self._place, list(items)
        run_id = None if wrapper is None else self._runs.setdefault(wrapper, new_id())
        async with self._queue.turn():
            await self._run(partial(self._add, place, items, run_id), wrapper)

    async def pop_item(self, *, wrapper: _Context | None = None) -> TResponseInputItem | None:
        """Takes the latest item of the branch away; no two callers get the same one.

        The other branches keep it. With the last item of a turn goes what the turn has used.
        """
        place = self._place
        async with self._queue.turn():
            item: TResponseInputItem | None = await self._ask(partial(self._pop_at, place), wrapper)
        return item

    async def clear_session(self, *, wrapper: _Context | None = None) -> None:
        """Deletes all items of all branches, and all usage; the session stays.

        All objects are on the main branch then. The names of the branches stay taken.
        """
        await super().clear_session(wrapper=wrapper)
        self._place = MAIN

    # --- branches -----------------------------------------------------------------------------

    async def create_branch_from_turn(
        self,
        turn_number: int,
        branch_name: str | None = None,
        *,
        wrapper: _Context | None = None,
    ) -> str:
        """Makes a branch with what was said before a turn, and goes on there."""
        if branch_name is not None and not branch_name.strip():
            raise ValueError("Branch name cannot be empty")
        make = partial(self._make_branch, self._place, turn_number, branch_name)
        self._place = await self._run(make, wrapper)
        logger.debug("a branch of session %s was made at turn %s", self.session_id, turn_number)
        return self._place.name

    async def create_branch_from_content(
        self,
        search_term: str,
        branch_name: str | None = None,
        *,
        wrapper: _Context | None = None,
    ) -> str:
        """Makes a branch as :meth:`create_branch_from_turn`, at the first turn that holds a text."""
        found = await self.find_turns_by_content(search_term, wrapper=wrapper)
        if not found:
            raise ValueError(f"No user turns found containing '{search_term}'")
        return await self.create_branch_from_turn(found[0]["turn"], branch_name, wrapper=wrapper)

    async def switch_to_branch(self, branch_id: str, *, wrapper: _Context | None = None) -> None:
        """Goes on on another branch."""
        self._place = await self._run(partial(self._find_branch, branch_id), wrapper)

    async def delete_branch(
        self, branch_id: str, force: bool = False, *, wrapper: _Context | None = None
    ) -> None:
        """Deletes a branch with its items and usage; its name stays taken."""
        if not branch_id or not branch_id.strip():
            raise ValueError("Branch ID cannot be empty")
        if branch_id == MAIN.name:
            raise ValueError("Cannot delete the 'main' branch")
        if branch_id == self._place.name:
            if not force:
                raise ValueError(
                    f"Cannot delete current branch '{branch_id}'. Use force=True or switch "
                    "branches first"
                )
            await self._run(partial(self._find_branch, branch_id), wrapper)
            await self.switch_to_branch(MAIN.name, wrapper=wrapper)
        async with self._queue.turn():
            await self._run(partial(self._delete_branch, branch_id), wrapper)

    async def list_branches(self, *, wrapper: _Context | None = None) -> list[dict[str, Any]]:
        """Lists the branches that have items, in the order in which they were made."""
        listed = await self._ask(partial(self._list_branches, self._place), wrapper)
        current, found = listed or (MAIN.name, [])
        return [
            {
                "branch_id": branch.name,
                "message_count": branch.size.messages,
                "user_turns": branch.size.turns,
                "is_current": branch.name == current,
                "created_at": timestamp(branch.created_at),
            }
            for branch in found
        ]

    # --- turns --------------------------------------------------------------------------------

    async def get_conversation_turns(
        self, branch_id: str | None = None, *, wrapper: _Context | None = None
    ) -> list[dict[str, Any]]:
        """Lists what the user said, with the turns to branch from."""
        turns = await self._on(branch_id, NamedBranchStore.turns, wrapper)
        return described(turns or [], shortened=True)

    async def find_turns_by_content(
        self,
        search_term: str,
        branch_id: str | None = None,
        *,
        wrapper: _Context | None = None,
    ) -> list[dict[str, Any]]:
        """Finds what the user said by a text in it; the case of ASCII letters does not matter."""
        turns = await self._on(branch_id, NamedBranchStore.turns, wrapper)
        found = [turn for turn in turns or [] if finds(search_term, turn.payload)]
        return described(found, shortened=False)

    async def get_conversation_by_turns(
        self, branch_id: str | None = None, *, wrapper: _Context | None = None
    ) -> dict[int, list[dict[str, str | None]]]:
        """Tells what kinds of items each turn has."""
        items = await self._on(branch_id, NamedBranchStore.turn_items, wrapper)
        return by_turns(items or [])

    async def get_tool_usage(
        self, branch_id: str | None = None, *, wrapper: _Context | None = None
    ) -> list[tuple[str, int, int]]:
        """Counts the calls of tools."""
        items = await self._on(branch_id, NamedBranchStore.turn_items, wrapper)
        return tool_usage(items or [])

    # --- usage --------------------------------------------------------------------------------

    async def store_run_usage(
        self, result: RunResult | RunResultStreaming, *, wrapper: _Context | None = None
    ) -> None:
        """Stores what a run has used as the usage of the branch's latest turn.

        It never raises what the database or a legal hold says, because the run is over; that is
        in the log.
        """
        usage = result.context_wrapper.usage
        if usage is None:
            return
        store = partial(self._store_usage, self._place, cost_of(usage))
        async with self._queue.turn():
            try:
                await self._ask(store, wrapper or result.context_wrapper)
            except (AgentSessionsError, Error) as error:
                logger.warning(
                    "the usage of a run of session %s was not stored: %s",
                    self.session_id,
                    type(error).__name__,
                )

    async def get_session_usage(
        self, branch_id: str | None = None, *, wrapper: _Context | None = None
    ) -> dict[str, int] | None:
        """Adds up what was used."""
        found = await self._ask(partial(self._total_usage, branch_id), wrapper)
        if found is None:
            return None
        return {
            "requests": found.requests,
            "input_tokens": found.input_tokens,
            "output_tokens": found.output_tokens,
            "total_tokens": found.total_tokens,
            "total_turns": found.turns,
        }

    async def get_turn_usage(
        self,
        user_turn_number: int | None = None,
        branch_id: str | None = None,
        *,
        wrapper: _Context | None = None,
    ) -> list[dict[str, Any]] | dict[str, Any]:
        """Tells what turns have used."""
        read = partial(NamedBranchStore.turn_costs, turn=user_turn_number)
        found = await self._on(branch_id, read, wrapper) or []
        if user_turn_number is not None:
            return used(found[0]) if found else {}
        return [{"user_turn_number": cost.turn, **used(cost)} for cost in found]
