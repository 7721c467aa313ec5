"""The sessions that are checked together, and the findings in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import Count, Max, Min, Q

from django_agent_sessions.content import codec
from django_agent_sessions.content.message_references import is_conversation_manager_state
from django_agent_sessions.exceptions import (
    DecryptionError,
    DestroyedKeyError,
    EncryptionError,
)
from django_agent_sessions.models import MAIN_BRANCH, Session, SessionAgent, SessionMessage
from django_agent_sessions.models.deletion import ENCRYPTED
from django_agent_sessions.models.fields import CorruptPayload
from django_agent_sessions.models.functions import error_count, message_count

from .findings import Finding, Kind, Severity
from .row_batches import row_batches

_MAX_LISTED = 100
"""The most findings of a kind in a session that are listed; the others are counted."""

_ERRORS = Count("pk", filter=Q(has_error=True))

UNDECRYPTABLE = (DecryptionError, DestroyedKeyError)
"""What the check reports; it stops without a master key, because then nothing can be read."""

_MANAGER = "conversation_manager_state"
_STATE_COLUMNS = ("state", _MANAGER, "internal_state", "window")


class BranchExtent(NamedTuple):
    """A branch of an agent's conversation."""

    agent: UUID
    branch: int
    messages: int
    first: int
    last: int


class Agent(NamedTuple):
    """What a check needs to know of an agent."""

    session: UUID
    dialect: str
    window: Any


class UsageSum(NamedTuple):
    """Sums of figures."""

    messages: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0

    def plus(self, *figures: int | None) -> UsageSum:
        """Add figures in the same order."""
        return UsageSum(*map(sum, zip(self, (figure or 0 for figure in figures), strict=True)))

    def at_least(self, other: UsageSum) -> UsageSum:
        return UsageSum(*map(max, self, other))


@dataclass(slots=True)
class Batch:
    """Some sessions and their findings."""

    using: str
    sessions: dict[UUID, Session]
    agents: dict[UUID, Agent] = field(default_factory=dict)
    spans: list[BranchExtent] = field(default_factory=list)
    counts: Counter[UUID] = field(default_factory=Counter)
    errors: Counter[UUID] = field(default_factory=Counter)
    newest: dict[UUID, datetime] = field(default_factory=dict)
    spent: dict[UUID, UsageSum] = field(default_factory=dict)
    """The sums of the messages."""
    spent_by_turns: dict[UUID, UsageSum] = field(default_factory=dict)
    """The sums of the stored usage of turns, which partly is that of their messages."""
    days: dict[date, UsageSum] = field(default_factory=dict)
    counted: UUID | None = None
    messages: int = 0
    plain: int = 0
    """The readable messages that are not encrypted."""
    _findings: dict[Finding, None] = field(default_factory=dict)
    _listed: Counter[tuple[Kind, UUID | None]] = field(default_factory=Counter)

    def add(self, kind: Kind, **where: Any) -> None:
        """Add a finding; list only the first ones of a kind in a session."""
        finding = Finding(kind, **where)
        if finding in self._findings:
            return
        self._listed[kind, finding.session] += 1
        if self._listed[kind, finding.session] <= _MAX_LISTED:
            self._findings[finding] = None

    def add_unreadable(self, kind: Kind, stored: str, *, session: UUID, **where: Any) -> None:
        """Add a finding for a text that cannot be read; one per session whose key is destroyed."""
        if codec.has_destroyed_key(stored):
            self.add(Kind.KEY_DESTROYED, session=session)
        else:
            self.add(kind, session=session, **where)

    def findings(self) -> Iterator[Finding]:
        """Yield the listed findings by session, errors first."""
        kinds = {kind: rank for rank, kind in enumerate(Kind)}
        order = {severity: rank for rank, severity in enumerate(Severity)}
        yield from sorted(
            self._findings,
            key=lambda finding: (
                str(finding.session),
                order[finding.kind.severity],
                kinds[finding.kind],
                str(finding.agent),
                finding.branch or 0,
                finding.position or 0,
                str(finding.row),
            ),
        )

    def unlisted(self) -> int:
        """Return the number of findings that are counted but not listed."""
        return sum(max(0, count - _MAX_LISTED) for count in self._listed.values())


def read_batch(using: str, keys: list[UUID], counted: UUID | None = None) -> Batch:
    """Read sessions, their agents and the extent of their branches."""
    sessions, undecryptable = _read_sessions(using, keys)
    batch = Batch(using, {key: sessions[key] for key in keys if key in sessions}, counted=counted)
    for key, column, error in undecryptable:
        if isinstance(error, DestroyedKeyError):
            batch.add(Kind.KEY_DESTROYED, session=key)
        else:
            batch.add(Kind.CORRUPT_STATE, session=key, row=key, detail=column)
    agents = SessionAgent.objects.using(using).filter(session__in=batch.sessions)
    columns = ("session_id", "dialect", *_STATE_COLUMNS)
    with codec.reading_damaged():
        for part in row_batches(agents, columns, _STATE_COLUMNS):
            for row in part:
                _add_agent(batch, row)
    rows = SessionMessage.objects.using(using).filter(session__in=batch.sessions).order_by()
    spans = rows.values_list("session_id", "agent_id", "branch").annotate(
        Count("pk"), Min("message_id"), Max("message_id"), Max("created_at"), errors=_ERRORS
    )
    branched: set[UUID] = set()
    for session, agent, branch, count, first, last, newest, errors in spans:
        batch.counts[session] += count
        batch.errors[session] += errors
        if branch != MAIN_BRANCH:
            branched.add(session)
        batch.newest[session] = max(newest, batch.newest.get(session, newest))
        known = batch.agents.get(agent)
        if known is None or known.session != session:
            batch.add(
                Kind.MISPLACED, session=session, agent=agent, branch=branch, detail="messages"
            )
        else:
            batch.spans.append(BranchExtent(agent, branch, count, first, last))
    if branched:
        # Copies on branches are not counted.
        counts = rows.filter(session__in=branched).values_list("session_id")
        for session, count, errors in counts.annotate(said=message_count(), failed=error_count()):
            batch.counts[session], batch.errors[session] = count, errors
    batch.spans.sort()
    return batch


def _read_sessions(
    using: str, keys: list[UUID]
) -> tuple[dict[UUID, Session], list[tuple[UUID, str, EncryptionError]]]:
    """Return sessions by key, and the columns of sessions that cannot be decrypted."""
    rows = Session.objects.using(using)
    try:
        return rows.in_bulk(keys), []
    except UNDECRYPTABLE:
        sessions = rows.defer(*ENCRYPTED).in_bulk(keys)
    undecryptable: list[tuple[UUID, str, EncryptionError]] = []
    for key in sessions:
        for column in ENCRYPTED:
            try:
                rows.filter(pk=key).values_list(column).first()
            except UNDECRYPTABLE as error:
                undecryptable.append((key, column, error))
    return sessions, undecryptable


def _add_agent(batch: Batch, row: dict[str, Any]) -> None:
    key, session = row["pk"], row["session_id"]
    corrupt = [name for name in _STATE_COLUMNS if isinstance(row[name], CorruptPayload)]
    for name in corrupt:
        where = {"session": session, "agent": key, "row": key, "detail": name}
        batch.add_unreadable(Kind.CORRUPT_STATE, row[name].text, **where)
    if _MANAGER not in corrupt and not is_conversation_manager_state(row[_MANAGER]):
        batch.add(Kind.CORRUPT_STATE, session=session, agent=key, row=key, detail=_MANAGER)
    window = None if "window" in corrupt else row["window"]
    batch.agents[key] = Agent(session, row["dialect"], window)
