"""Turns of a conversation (a user's message and what follows it), and their usage.

A turn has no row of its own: its number is the count of user messages up to it on its branch, so
that numbers stay dense when messages are deleted. Messages before the first user message are turn
0.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Mapping
from typing import Any

from django.db.models import Count, Max, Min, Q, QuerySet, Sum
from django.utils import timezone

from django_agent_sessions.db.retries import retry_reads, tracked_atomic, write
from django_agent_sessions.exceptions import PayloadError
from django_agent_sessions.models import SessionMessage, TurnUsage
from django_agent_sessions.models.fields import CorruptPayload, decode_payload
from django_agent_sessions.models.stored_text import PAYLOAD_TEXT
from django_agent_sessions.values.ids import new_id
from django_agent_sessions.values.records import (
    AgentRecord,
    BranchSize,
    TurnCost,
    TurnCosts,
    TurnItem,
    Usage,
)
from django_agent_sessions.values.token_counts import TokenCounts, token_counts

from ._context import StorePart, twin
from ._counters import touch
from ._message_reading import read_contents
from ._queries import conversation
from .locking import lock_session

IS_USER_MESSAGE = Q(role="user")
"""Condition for the messages that begin a turn."""

_LARGEST = 2**62


class Turns(StorePart):
    """The operations of a store on turns and their usage."""

    @retry_reads
    def list(self, agent: AgentRecord) -> builtins.list[TurnItem]:
        """Read the messages that begin turns, which are the users' messages.

        Args:
            agent: The agent; its ``branch`` selects the branch.

        Returns:
            The messages in order.
        """
        rows = conversation(self.using, agent).filter(IS_USER_MESSAGE)
        values = rows.values_list("message_id", PAYLOAD_TEXT, "role", "created_at")
        # With large binaries: people choose a turn by its content.
        payloads = dict(_payloads_by_position(self.using, agent, values))
        return [
            TurnItem(number, row[0], row[2], payloads.get(row[0], CorruptPayload(row[1])), row[3])
            for number, row in enumerate(values, 1)
        ]

    alist = twin(list)

    @retry_reads
    def items(self, agent: AgentRecord) -> builtins.list[TurnItem]:
        """Read all messages with their turn numbers. Large binaries stay references.

        Args:
            agent: The agent; its ``branch`` selects the branch.

        Returns:
            The messages in order.
        """
        items = []
        turn = 0
        rows = conversation(self.using, agent).values_list(
            "message_id", PAYLOAD_TEXT, "role", "created_at"
        )
        for position, text, role, created_at in rows.iterator():
            turn += role == "user"
            items.append(TurnItem(turn, position, role, decode_payload(text), created_at))
        return items

    aitems = twin(items)

    @retry_reads
    def sizes(self, agent: AgentRecord) -> dict[int, BranchSize]:
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

    asizes = twin(sizes)

    def save_cost(
        self, agent: AgentRecord, cost: TurnCost, *, uncounted: Usage | None = None
    ) -> int | None:
        """Store the usage of the latest turn, and replace what was stored for it before.

        Args:
            agent: The agent; its ``branch`` selects the branch.
            cost: The usage of the turn.
            uncounted: The tokens to add to the session's counters; by default those that neither
                the turn's messages nor its stored usage have reported.

        Returns:
            The number of the turn; None if the branch is empty and nothing was stored.

        Raises:
            PayloadError: The details are not JSON.
        """
        what = f"storing the usage of agent {agent.agent_id!r}"

        def store(unsure: bool) -> int | None:
            with tracked_atomic(self.using):
                lock_session(self.using, agent.session)
                return _store_cost(self.using, agent, cost, uncounted)

        return write(self.using, store, what=what)

    asave_cost = twin(save_cost)

    @retry_reads
    def costs(self, agent: AgentRecord, *, turn: int | None = None) -> builtins.list[TurnCost]:
        """Read the stored usage of turns.

        Args:
            agent: The agent; its ``branch`` selects the branch.
            turn: Read only this turn; None reads all.

        Returns:
            The turns with stored usage, in order.
        """
        rows = cost_rows(self.using, agent).filter(branch=agent.branch).order_by("turn")
        if turn is not None:
            rows = rows.filter(turn=turn)
        return [_cost(row) for row in rows]

    acosts = twin(costs)

    @retry_reads
    def total(self, agent: AgentRecord, *, branch: int | None = None) -> TurnCosts | None:
        """Return the sum of the stored usage of turns.

        Args:
            agent: The agent.
            branch: Number of a branch; None sums up all branches.

        Returns:
            The sums; None if no usage is stored.
        """
        rows = cost_rows(self.using, agent).order_by()
        if branch is not None:
            rows = rows.filter(branch=branch)
        names = ("requests", "input_tokens", "output_tokens", "total_tokens")
        totals = rows.aggregate(turns=Count("pk"), **{f"all_{name}": Sum(name) for name in names})
        if not totals["turns"]:
            return None
        sums = {name: int(totals[f"all_{name}"]) for name in names}
        return TurnCosts(turns=totals["turns"], **sums)

    atotal = twin(total)


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


def _counts(cost: TurnCost) -> TokenCounts:
    """Return the token counts of a turn with those of a cache, which its details have."""
    details = cost.input_tokens_details
    cached = (
        [
            count if type(count := details.get(name)) is int and 0 <= count < _LARGEST else None
            for name in ("cached_tokens", "cache_write_tokens")
        ]
        if isinstance(details, dict)
        else (None, None)
    )
    return token_counts(cost.input_tokens, cost.output_tokens, cost.total_tokens, *cached)


def _details(details: Any) -> Any:
    return None if isinstance(details, CorruptPayload) else details


def _store_cost(
    using: str, agent: AgentRecord, cost: TurnCost, uncounted: Usage | None
) -> int | None:
    counts = (
        conversation(using, agent)
        .order_by()
        .aggregate(
            all=Count("pk"),
            turn=Count("pk", filter=IS_USER_MESSAGE),
            start=Max("message_id", filter=IS_USER_MESSAGE),
        )
    )
    if not counts["all"]:
        return None
    turn = int(counts["turn"])
    rows = cost_rows(using, agent).filter(branch=agent.branch, turn=turn)
    previous = rows.first()
    columns = _columns(cost)
    if previous is None:
        insert_cost(using, agent, turn, columns)
    else:
        rows.update(**columns)
    if uncounted is None:
        # What the messages of the turn report is in the session's counters already.
        of_turn = conversation(using, agent).filter(message_id__gte=counts["start"] or 0)
        reported = of_turn.order_by().aggregate(
            **{f"all_{name}": Sum(name) for name in TokenCounts._fields}
        )
        before = TokenCounts(0, 0) if previous is None else _counts(_cost(previous))
        figures = zip(_counts(cost), before, reported.values(), strict=True)
        uncounted = Usage.of_tokens(
            None if now is None else max(now, least or 0) - max(known or 0, least or 0)
            for now, known, least in figures
        )
    touch(using, agent.session, uncounted)
    return turn


def insert_cost(using: str, agent: AgentRecord, turn: int, columns: Mapping[str, Any]) -> None:
    row = TurnUsage(
        id=new_id(),
        session_id=agent.session,
        agent_id=agent.id,
        branch=agent.branch,
        turn=turn,
        **columns,
    )
    row.save(using=using, force_insert=True)


def import_costs(using: str, agent: AgentRecord, costs: Iterable[TurnCost]) -> None:
    stored = set(cost_rows(using, agent).values_list("branch", "turn"))
    for cost in costs:
        if (cost.branch, cost.turn) not in stored:
            insert_cost(using, agent.on_branch(cost.branch), cost.turn, _columns(cost))


def forget_costs(using: str, agent: AgentRecord, position: int) -> None:
    """Delete the usage of turns that have no messages left before a position."""
    earlier = conversation(using, agent).filter(message_id__lt=position).order_by()
    counts = earlier.aggregate(all=Count("pk"), turn=Count("pk", filter=IS_USER_MESSAGE))
    orphans = cost_rows(using, agent).filter(branch=agent.branch)
    if counts["all"]:
        orphans = orphans.filter(turn__gt=counts["turn"])
    if keys := list(orphans.values_list("pk", flat=True)):
        cost_rows(using, agent).filter(pk__in=keys).delete()


def cost_rows(using: str, agent: AgentRecord) -> QuerySet[TurnUsage]:
    return TurnUsage.objects.using(using).filter(agent=agent.id)


def _payloads_by_position(
    using: str, agent: AgentRecord, rows: Iterable[tuple[Any, ...]]
) -> Iterable[tuple[int, Any]]:
    return ((row[0], payload) for row, payload in read_contents(using, agent, rows))
