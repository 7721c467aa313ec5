"""What a check knows of the sessions that it looks at together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import Count, Max, Min

from django_agent_sessions.fields import CorruptPayload
from django_agent_sessions.models import Session, SessionAgent, SessionMessage

from .findings import Finding, Kind, Severity
from .pieces import large

_MOST = 100
"""Findings of one kind and session that are listed; the others are counted."""

_STATES = ("state", "conversation_manager_state", "internal_state", "window")


class Span(NamedTuple):
    """One branch of an agent's conversation, as far as the database can count it.

    Attributes:
        agent: Primary key of the agent.
        branch: The number of the branch.
        messages: How many messages there are.
        first: The first position.
        last: The last position.
    """

    agent: UUID
    branch: int
    messages: int
    first: int
    last: int


class Agent(NamedTuple):
    """What there is to know of an agent."""

    session: UUID
    dialect: str
    window: Any


class Tally(NamedTuple):
    """Figures that were added up."""

    messages: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def plus(self, messages: int, input_tokens: int | None, output_tokens: int | None) -> Tally:
        """Adds."""
        return Tally(
            self.messages + messages,
            self.input_tokens + (input_tokens or 0),
            self.output_tokens + (output_tokens or 0),
        )


@dataclass(slots=True)
class Batch:
    """Some sessions, and what was found in them."""

    using: str
    sessions: dict[UUID, Session]
    agents: dict[UUID, Agent] = field(default_factory=dict)
    spans: list[Span] = field(default_factory=list)
    counts: Counter[UUID] = field(default_factory=Counter)
    newest: dict[UUID, datetime] = field(default_factory=dict)
    spent: dict[UUID, Tally] = field(default_factory=dict)
    days: dict[date, Tally] = field(default_factory=dict)
    counted: UUID | None = None
    messages: int = 0
    _found: dict[Finding, None] = field(default_factory=dict)
    _listed: Counter[tuple[Kind, UUID | None]] = field(default_factory=Counter)

    def add(self, kind: Kind, **where: Any) -> None:
        """Adds a finding; of very many of one kind in one session only the first."""
        finding = Finding(kind, **where)
        if finding in self._found:
            return
        self._listed[kind, finding.session] += 1
        if self._listed[kind, finding.session] <= _MOST:
            self._found[finding] = None

    def findings(self) -> Iterator[Finding]:
        """Tells what was found, the worst first."""
        kinds = {kind: place for place, kind in enumerate(Kind)}
        order = {severity: place for place, severity in enumerate(Severity)}
        yield from sorted(
            self._found,
            key=lambda found: (
                str(found.session),
                order[found.kind.severity],
                kinds[found.kind],
                str(found.agent),
                found.branch or 0,
                found.position or 0,
                str(found.row),
            ),
        )

    def unlisted(self) -> int:
        """Counts the findings that were too many to be listed."""
        return sum(max(0, count - _MOST) for count in self._listed.values())


def read_batch(using: str, keys: list[UUID], counted: UUID | None = None) -> Batch:
    """Reads sessions, their agents and how long their conversations are."""
    found = Session.objects.using(using).in_bulk(keys)
    batch = Batch(using, {key: found[key] for key in keys if key in found}, counted=counted)
    agents = SessionAgent.objects.using(using).filter(session__in=batch.sessions)
    for part in large(agents, ("session_id", "dialect", *_STATES), _STATES):
        for row in part:
            _note_agent(batch, row)
    rows = SessionMessage.objects.using(using).filter(session__in=batch.sessions).order_by()
    spans = rows.values_list("session_id", "agent_id", "branch").annotate(
        Count("pk"), Min("message_id"), Max("message_id"), Max("created_at")
    )
    for session, agent, branch, count, first, last, newest in spans:
        batch.counts[session] += count
        batch.newest[session] = max(newest, batch.newest.get(session, newest))
        known = batch.agents.get(agent)
        if known is None or known.session != session:
            batch.add(
                Kind.MISPLACED, session=session, agent=agent, branch=branch, detail="messages"
            )
        else:
            batch.spans.append(Span(agent, branch, count, first, last))
    batch.spans.sort()
    return batch


def _note_agent(batch: Batch, row: dict[str, Any]) -> None:
    key, session = row["pk"], row["session_id"]
    corrupt = [name for name in _STATES if isinstance(row[name], CorruptPayload)]
    for name in corrupt:
        batch.add(Kind.CORRUPT_STATE, session=session, agent=key, row=key, detail=name)
    window = None if "window" in corrupt else row["window"]
    batch.agents[key] = Agent(session, row["dialect"], window)
