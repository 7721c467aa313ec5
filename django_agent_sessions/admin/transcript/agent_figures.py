"""The figures of a session's newest messages by agent; users who may not read content see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from django.db.models import Case, IntegerField, Q, Value, When
from django.db.models.lookups import LessThanOrEqual

from django_agent_sessions.content import dialects
from django_agent_sessions.models.functions import OctetLength, count_occurrences
from django_agent_sessions.queries.message_pages import MessageQuery
from django_agent_sessions.values.records import add_known

from .view_models import AgentLabel

MOST_MESSAGES = 300
"""The most messages that the figures include."""

SEARCHED = 64 * 1024
"""Bytes of the largest payload in which calls are counted."""

_CALL_MARKERS = (
    '"toolUse":{',
    '"type":"function_call"',
    '"type":"custom_tool_call"',
    '"type":"mcp_call"',
    '"type":"web_search_call"',
    '"type":"file_search_call"',
    '"type":"code_interpreter_call"',
)


class Point(NamedTuple):
    """The figures of a message."""

    agent_id: UUID
    role: str
    input_tokens: int | None
    output_tokens: int | None
    latency_ms: int | None
    calls: int
    has_error: bool


@dataclass(slots=True)
class AgentSum:
    """The figures of an agent."""

    voice: AgentLabel
    messages: int = 0
    calls: int = 0
    errors: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    latencies: list[int] = field(default_factory=list)

    @property
    def median(self) -> int | None:
        """The median latency in milliseconds."""
        ranked = sorted(self.latencies)
        return ranked[len(ranked) // 2] if ranked else None

    @property
    def slowest(self) -> int | None:
        """The maximum latency in milliseconds."""
        return max(self.latencies, default=None)


def points(scope: MessageQuery) -> list[Point]:
    """Read the figures of the newest messages, newest first, and of one more message."""
    small = Q(LessThanOrEqual(OctetLength("message"), SEARCHED))

    calls = Case(
        When(small, then=count_occurrences(*_CALL_MARKERS)),
        default=Value(0),
        output_field=IntegerField(),
    )
    rows = scope.messages.annotate(calls=calls)
    values = rows.order_by(f"-{scope.key}").values_list(*Point._fields)
    return [Point(*row) for row in values[: MOST_MESSAGES + 1]]


def figures(points: Sequence[Point], labels: Mapping[UUID, AgentLabel]) -> list[AgentSum]:
    """Return the figures of the agents, most messages first."""
    by_agent: dict[UUID, AgentSum] = {}
    for point in points[:MOST_MESSAGES]:
        voice = labels.get(point.agent_id) or AgentLabel(point.agent_id, "?", "", 0)
        agent = by_agent.setdefault(point.agent_id, AgentSum(voice))
        agent.messages += 1
        agent.calls += point.calls
        agent.errors += point.has_error
        agent.input_tokens = add_known(agent.input_tokens, point.input_tokens)
        agent.output_tokens = add_known(agent.output_tokens, point.output_tokens)
        if point.latency_ms is not None:
            agent.latencies.append(point.latency_ms)
    return sorted(by_agent.values(), key=lambda each: -each.messages)


def has_unanswered_call(points: Sequence[Point], labels: Mapping[UUID, AgentLabel]) -> bool:
    """Return whether an agent's newest message calls a tool, so that no result followed."""
    newest = {point.agent_id: point for point in reversed(points)}.values()
    return any(
        point.role == "assistant" and point.calls > 0 and not _is_node(labels.get(point.agent_id))
        for point in newest
    )


def _is_node(voice: AgentLabel | None) -> bool:
    # Only the last message of a node's run is stored, without results.
    return voice is not None and dialects.get(voice.dialect).is_of_nodes
