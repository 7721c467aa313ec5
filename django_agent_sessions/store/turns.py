"""Turns of a conversation: a user's message with all that follows it, and what each has cost.

A turn has no row of its own: its number is how many of the branch's messages up to there are a
user's, so that it follows whatever is taken away. What comes before the first is turn 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.db.models import Count, Min, Q, QuerySet, Sum
from django.utils import timezone

from django_agent_sessions.exceptions import PayloadError
from django_agent_sessions.fields import CorruptPayload, read
from django_agent_sessions.ids import new_id
from django_agent_sessions.models import SessionMessage, TurnUsage
from django_agent_sessions.querysets import CONTENT_TEXT
from django_agent_sessions.records import (
    AgentRecord,
    BranchSize,
    TurnCost,
    TurnCosts,
    TurnItem,
    Usage,
)

from .alone import lock_session
from .base import repeatable, whole, write
from .messages import MessageStore

USER = Q(role="user")
"""Which messages begin a turn."""

_LARGEST = 2**62


class TurnStore(MessageStore):
    """The part of the store that knows turns, and what they cost."""

    @repeatable
    def turns(self, agent: AgentRecord) -> list[TurnItem]:
        """Reads the messages that begin turns: the users'.

        Args:
            agent: The agent, with the branch, whose conversation it is.

        Returns:
            The messages in order.
        """
        rows = self._messages(agent).filter(USER)
        found = rows.values_list("message_id", CONTENT_TEXT, "role", "created_at")
        # Large binaries too: this is what a person chooses by.
        payloads = dict(self._whole(agent, found))
        return [
            TurnItem(number, row[0], row[2], payloads.get(row[0], CorruptPayload(row[1])), row[3])
            for number, row in enumerate(found, 1)
        ]

    async def aturns(self, agent: AgentRecord) -> list[TurnItem]:
        """Does what :meth:`turns` does."""
        return await self._arun(self.turns, agent)

    @repeatable
    def turn_items(self, agent: AgentRecord) -> list[TurnItem]:
        """Reads all messages with their turns. Large binaries stay references.

        Args:
            agent: The agent, with the branch, whose conversation it is.

        Returns:
            The messages in order.
        """
        found = []
        turn = 0
        rows = self._messages(agent).values_list("message_id", CONTENT_TEXT, "role", "created_at")
        for position, text, role, created_at in rows.iterator():
            turn += role == "user"
            found.append(TurnItem(turn, position, role, read(text), created_at))
        return found

    async def aturn_items(self, agent: AgentRecord) -> list[TurnItem]:
        """Does what :meth:`turn_items` does."""
        return await self._arun(self.turn_items, agent)

    @repeatable
    def branch_sizes(self, agent: AgentRecord) -> dict[int, BranchSize]:
        """Counts what is on each branch; no payload is read.

        Args:
            agent: The agent whose conversation it is.

        Returns:
            The branches that have messages, by number.
        """
        rows = SessionMessage.objects.using(self.using).filter(agent=agent.id).order_by()
        counted = rows.values_list("branch").annotate(
            messages=Count("pk"), turns=Count("pk", filter=USER), first_at=Min("created_at")
        )
        return {branch: BranchSize(*counts) for branch, *counts in counted}

    async def abranch_sizes(self, agent: AgentRecord) -> dict[int, BranchSize]:
        """Does what :meth:`branch_sizes` does."""
        return await self._arun(self.branch_sizes, agent)

    def store_turn_cost(self, agent: AgentRecord, cost: TurnCost) -> int | None:
        """Writes what the latest turn has cost, in place of what was written before.

        The session's counters of tokens move by the difference.

        Args:
            agent: The agent, with the branch, whose conversation it is.
            cost: What it has cost.

        Returns:
            Which turn that is; None if the branch is empty, and nothing was written.

        Raises:
            PayloadError: The details are not JSON.
        """
        what = f"storing the usage of agent {agent.agent_id!r}"

        def store(unsure: bool) -> int | None:
            with whole(self.using):
                lock_session(self.using, agent.session)
                return self._store_cost(agent, cost)

        return write(self.using, store, what=what)

    async def astore_turn_cost(self, agent: AgentRecord, cost: TurnCost) -> int | None:
        """Does what :meth:`store_turn_cost` does."""
        return await self._arun(self.store_turn_cost, agent, cost)

    @repeatable
    def turn_costs(self, agent: AgentRecord, *, turn: int | None = None) -> list[TurnCost]:
        """Reads what turns have cost.

        Args:
            agent: The agent, with the branch, whose conversation it is.
            turn: Only this one; None reads all.

        Returns:
            The turns whose cost was stored, in order.
        """
        rows = self._costs(agent).filter(branch=agent.branch).order_by("turn")
        if turn is not None:
            rows = rows.filter(turn=turn)
        return [_cost(row) for row in rows]

    async def aturn_costs(self, agent: AgentRecord, *, turn: int | None = None) -> list[TurnCost]:
        """Does what :meth:`turn_costs` does."""
        return await self._arun(self.turn_costs, agent, turn=turn)

    @repeatable
    def total_cost(self, agent: AgentRecord, *, branch: int | None = None) -> TurnCosts | None:
        """Adds up what turns have cost.

        Args:
            agent: The agent whose conversation it is.
            branch: Only those of this branch; None adds up all branches.

        Returns:
            The sums; None if there are none.
        """
        rows = self._costs(agent).order_by()
        if branch is not None:
            rows = rows.filter(branch=branch)
        names = ("requests", "input_tokens", "output_tokens", "total_tokens")
        found = rows.aggregate(turns=Count("pk"), **{f"all_{name}": Sum(name) for name in names})
        if not found["turns"]:
            return None
        sums = {name: int(found[f"all_{name}"]) for name in names}
        return TurnCosts(turns=found["turns"], **sums)

    async def atotal_cost(
        self, agent: AgentRecord, *, branch: int | None = None
    ) -> TurnCosts | None:
        """Does what :meth:`total_cost` does."""
        return await self._arun(self.total_cost, agent, branch=branch)

    # --- in the caller's transaction, with the session's row locked ---------------------------

    def _store_cost(self, agent: AgentRecord, cost: TurnCost) -> int | None:
        counts = (
            self._messages(agent)
            .order_by()
            .aggregate(all=Count("pk"), turn=Count("pk", filter=USER))
        )
        if not counts["all"]:
            return None
        turn = int(counts["turn"])
        rows = self._costs(agent).filter(branch=agent.branch, turn=turn)
        before = rows.values_list("input_tokens", "output_tokens").first()
        columns = _columns(cost)
        if before is None:
            self._insert_cost(agent, turn, columns)
        else:
            rows.update(**columns)
        old = (0, 0) if before is None else before
        spent = Usage(
            input_tokens=columns["input_tokens"] - old[0],
            output_tokens=columns["output_tokens"] - old[1],
        )
        self.touch(agent.session, spent)
        return turn

    def _insert_cost(self, agent: AgentRecord, turn: int, columns: Mapping[str, Any]) -> None:
        row = TurnUsage(
            id=new_id(),
            session_id=agent.session,
            agent_id=agent.id,
            branch=agent.branch,
            turn=turn,
            **columns,
        )
        row.save(using=self.using, force_insert=True)

    def _import_costs(self, agent: AgentRecord, costs: Iterable[TurnCost]) -> None:
        there = set(self._costs(agent).values_list("branch", "turn"))
        for cost in costs:
            if (cost.branch, cost.turn) not in there:
                self._insert_cost(agent.on_branch(cost.branch), cost.turn, _columns(cost))

    def _forget_costs(self, agent: AgentRecord, position: int) -> None:
        """Deletes what turns have cost that ended when all from a position on was taken away."""
        before = self._messages(agent).filter(message_id__lt=position).order_by()
        counts = before.aggregate(all=Count("pk"), turn=Count("pk", filter=USER))
        gone = self._costs(agent).filter(branch=agent.branch)
        if counts["all"]:
            gone = gone.filter(turn__gt=counts["turn"])
        if keys := list(gone.values_list("pk", flat=True)):
            self._costs(agent).filter(pk__in=keys).delete()

    def _costs(self, agent: AgentRecord) -> QuerySet[TurnUsage]:
        return TurnUsage.objects.using(self.using).filter(agent=agent.id)

    def _whole(
        self, agent: AgentRecord, rows: Iterable[tuple[Any, ...]]
    ) -> Iterable[tuple[int, Any]]:
        return ((row[0], payload) for row, payload in self._contents(agent, rows))


def _columns(cost: TurnCost) -> dict[str, Any]:
    return {
        "requests": _figure(cost.requests),
        "input_tokens": _figure(cost.input_tokens),
        "output_tokens": _figure(cost.output_tokens),
        "total_tokens": _figure(cost.total_tokens),
        "input_tokens_details": cost.input_tokens_details,
        "output_tokens_details": cost.output_tokens_details,
        "created_at": timezone.now(),
    }


def _figure(value: Any) -> int:
    if not isinstance(value, int) or not -_LARGEST < value < _LARGEST:
        raise PayloadError("a number of tokens or requests cannot be one")
    return value


def _cost(row: TurnUsage) -> TurnCost:
    return TurnCost(
        requests=row.requests,
        input_tokens=row.input_tokens,
        output_tokens=row.output_tokens,
        total_tokens=row.total_tokens,
        input_tokens_details=_sound(row.input_tokens_details),
        output_tokens_details=_sound(row.output_tokens_details),
        turn=row.turn,
        branch=row.branch,
    )


def _sound(details: Any) -> Any:
    return None if isinstance(details, CorruptPayload) else details
