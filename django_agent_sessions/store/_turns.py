"""Turns of a conversation (a user's message and what follows it), and their usage.

A turn has no row of its own: its number is the count of user messages up to it on its branch, so
that numbers stay dense when messages are deleted. Messages before the first user message are turn
0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.db.models import Count, Min, Q, QuerySet, Sum
from django.utils import timezone

from django_agent_sessions.exceptions import PayloadError
from django_agent_sessions.models import SessionMessage, TurnUsage
from django_agent_sessions.models.fields import CorruptPayload, decode_payload
from django_agent_sessions.models.querysets import VISIBLE_TEXT
from django_agent_sessions.values.ids import new_id
from django_agent_sessions.values.records import (
    AgentRecord,
    BranchSize,
    TurnCost,
    TurnCosts,
    TurnItem,
    Usage,
)

from ._base import retry_reads, tracked_atomic, write
from ._messages import MessageStore
from .locking import lock_session

IS_USER_MESSAGE = Q(role="user")
"""Condition for the messages that begin a turn."""

_LARGEST = 2**62


class TurnStore(MessageStore):
    @retry_reads
    def turns(self, agent: AgentRecord) -> list[TurnItem]:
        """Read the messages that begin turns, which are the users' messages.

        Args:
            agent: The agent; its ``branch`` selects the branch.

        Returns:
            The messages in order.
        """
        rows = self._messages(agent).filter(IS_USER_MESSAGE)
        values = rows.values_list("message_id", VISIBLE_TEXT, "role", "created_at")
        # With large binaries: people choose a turn by its content.
        payloads = dict(self._payloads_by_position(agent, values))
        return [
            TurnItem(number, row[0], row[2], payloads.get(row[0], CorruptPayload(row[1])), row[3])
            for number, row in enumerate(values, 1)
        ]

    async def aturns(self, agent: AgentRecord) -> list[TurnItem]:
        """Async twin of :meth:`turns`."""
        return await self._arun(self.turns, agent)

    @retry_reads
    def turn_items(self, agent: AgentRecord) -> list[TurnItem]:
        """Read all messages with their turn numbers. Large binaries stay references.

        Args:
            agent: The agent; its ``branch`` selects the branch.

        Returns:
            The messages in order.
        """
        items = []
        turn = 0
        rows = self._messages(agent).values_list("message_id", VISIBLE_TEXT, "role", "created_at")
        for position, text, role, created_at in rows.iterator():
            turn += role == "user"
            items.append(TurnItem(turn, position, role, decode_payload(text), created_at))
        return items

    async def aturn_items(self, agent: AgentRecord) -> list[TurnItem]:
        """Async twin of :meth:`turn_items`."""
        return await self._arun(self.turn_items, agent)

    @retry_reads
    def branch_sizes(self, agent: AgentRecord) -> dict[int, BranchSize]:
        """Count the messages and turns of each branch, without reading payloads.

        Args:
            agent: The agent.

        Returns:
            The branches that have messages, by number.
        """
        rows = SessionMessage.objects.using(self.using).filter(agent=agent.id).order_by()
        counts_by_branch = rows.values_list("branch").annotate(
            messages=Count("pk"),
            turns=Count("pk", filter=IS_USER_MESSAGE),
            first_at=Min("created_at"),
        )
        return {branch: BranchSize(*counts) for branch, *counts in counts_by_branch}

    async def abranch_sizes(self, agent: AgentRecord) -> dict[int, BranchSize]:
        """Async twin of :meth:`branch_sizes`."""
        return await self._arun(self.branch_sizes, agent)

    def store_turn_cost(self, agent: AgentRecord, cost: TurnCost) -> int | None:
        """Store the usage of the latest turn, and replace what was stored for it before.

        The session's token counters change by the difference.

        Args:
            agent: The agent; its ``branch`` selects the branch.
            cost: The usage of the turn.

        Returns:
            The number of the turn; None if the branch is empty and nothing was stored.

        Raises:
            PayloadError: The details are not JSON.
        """
        what = f"storing the usage of agent {agent.agent_id!r}"

        def store(unsure: bool) -> int | None:
            with tracked_atomic(self.using):
                lock_session(self.using, agent.session)
                return self._store_cost(agent, cost)

        return write(self.using, store, what=what)

    async def astore_turn_cost(self, agent: AgentRecord, cost: TurnCost) -> int | None:
        """Async twin of :meth:`store_turn_cost`."""
        return await self._arun(self.store_turn_cost, agent, cost)

    @retry_reads
    def turn_costs(self, agent: AgentRecord, *, turn: int | None = None) -> list[TurnCost]:
        """Read the stored usage of turns.

        Args:
            agent: The agent; its ``branch`` selects the branch.
            turn: Read only this turn; None reads all.

        Returns:
            The turns with stored usage, in order.
        """
        rows = self._costs(agent).filter(branch=agent.branch).order_by("turn")
        if turn is not None:
            rows = rows.filter(turn=turn)
        return [_cost(row) for row in rows]

    async def aturn_costs(self, agent: AgentRecord, *, turn: int | None = None) -> list[TurnCost]:
        """Async twin of :meth:`turn_costs`."""
        return await self._arun(self.turn_costs, agent, turn=turn)

    @retry_reads
    def total_cost(self, agent: AgentRecord, *, branch: int | None = None) -> TurnCosts | None:
        """Return the sum of the stored usage of turns.

        Args:
            agent: The agent.
            branch: Number of a branch; None sums up all branches.

        Returns:
            The sums; None if no usage is stored.
        """
        rows = self._costs(agent).order_by()
        if branch is not None:
            rows = rows.filter(branch=branch)
        names = ("requests", "input_tokens", "output_tokens", "total_tokens")
        totals = rows.aggregate(turns=Count("pk"), **{f"all_{name}": Sum(name) for name in names})
        if not totals["turns"]:
            return None
        sums = {name: int(totals[f"all_{name}"]) for name in names}
        return TurnCosts(turns=totals["turns"], **sums)

    async def atotal_cost(
        self, agent: AgentRecord, *, branch: int | None = None
    ) -> TurnCosts | None:
        """Async twin of :meth:`total_cost`."""
        return await self._arun(self.total_cost, agent, branch=branch)

    # --- in the caller's transaction, with the session's row locked ---------------------------

    def _store_cost(self, agent: AgentRecord, cost: TurnCost) -> int | None:
        counts = (
            self._messages(agent)
            .order_by()
            .aggregate(all=Count("pk"), turn=Count("pk", filter=IS_USER_MESSAGE))
        )
        if not counts["all"]:
            return None
        turn = int(counts["turn"])
        rows = self._costs(agent).filter(branch=agent.branch, turn=turn)
        previous_tokens = rows.values_list("input_tokens", "output_tokens").first()
        columns = _columns(cost)
        if previous_tokens is None:
            self._insert_cost(agent, turn, columns)
        else:
            rows.update(**columns)
        old = (0, 0) if previous_tokens is None else previous_tokens
        difference = Usage(
            input_tokens=columns["input_tokens"] - old[0],
            output_tokens=columns["output_tokens"] - old[1],
        )
        self.touch(agent.session, difference)
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
        stored = set(self._costs(agent).values_list("branch", "turn"))
        for cost in costs:
            if (cost.branch, cost.turn) not in stored:
                self._insert_cost(agent.on_branch(cost.branch), cost.turn, _columns(cost))

    def _forget_costs(self, agent: AgentRecord, position: int) -> None:
        """Delete the usage of turns that have no messages left before a position."""
        earlier = self._messages(agent).filter(message_id__lt=position).order_by()
        counts = earlier.aggregate(all=Count("pk"), turn=Count("pk", filter=IS_USER_MESSAGE))
        orphans = self._costs(agent).filter(branch=agent.branch)
        if counts["all"]:
            orphans = orphans.filter(turn__gt=counts["turn"])
        if keys := list(orphans.values_list("pk", flat=True)):
            self._costs(agent).filter(pk__in=keys).delete()

    def _costs(self, agent: AgentRecord) -> QuerySet[TurnUsage]:
        return TurnUsage.objects.using(self.using).filter(agent=agent.id)

    def _payloads_by_position(
        self, agent: AgentRecord, rows: Iterable[tuple[Any, ...]]
    ) -> Iterable[tuple[int, Any]]:
        return ((row[0], payload) for row, payload in self._contents(agent, rows))


def _columns(cost: TurnCost) -> dict[str, Any]:
    return {
        "requests": _validated_count(cost.requests),
        "input_tokens": _validated_count(cost.input_tokens),
        "output_tokens": _validated_count(cost.output_tokens),
        "total_tokens": _validated_count(cost.total_tokens),
        "input_tokens_details": cost.input_tokens_details,
        "output_tokens_details": cost.output_tokens_details,
        "created_at": timezone.now(),
    }


def _validated_count(value: Any) -> int:
    if not isinstance(value, int) or not -_LARGEST < value < _LARGEST:
        raise PayloadError("a number of tokens or requests is not an integer, or too large")
    return value


def _cost(row: TurnUsage) -> TurnCost:
    return TurnCost(
        requests=row.requests,
        input_tokens=row.input_tokens,
        output_tokens=row.output_tokens,
        total_tokens=row.total_tokens,
        input_tokens_details=_details(row.input_tokens_details),
        output_tokens_details=_details(row.output_tokens_details),
        turn=row.turn,
        branch=row.branch,
    )


def _details(details: Any) -> Any:
    return None if isinstance(details, CorruptPayload) else details
