"""What stands around a conversation: its agents, what they keep, and its neighbours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Case, Count, F, OuterRef, Q, QuerySet, Subquery, TextField, Value, When
from django.db.models.functions import Cast, Coalesce, Greatest, Lower, StrIndex, Substr
from django.db.models.lookups import GreaterThan, LessThanOrEqual
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext

from django_agent_sessions.fields import ExactJSONField
from django_agent_sessions.functions import OctetLength
from django_agent_sessions.models import (
    MAIN_BRANCH,
    AuditEvent,
    Session,
    SessionAgent,
    SessionMessage,
    SessionMultiAgent,
)
from django_agent_sessions.windows import Row

from .pieces import Voice
from .trees import tree
from .viewers import Viewer
from .wording import redaction_note

AGENTS = 100
"""Agents, and orchestrators, that a page lists."""

STATE = 64 * 1024
"""Bytes of the largest state that a page shows without being asked."""

_DRAWN = 12
_EMPTY = 2
_COLOURS = 6
_BEFORE = 60
_EXCERPT = 200

STATES = {
    "state": gettext_lazy("State"),
    "conversation_manager_state": gettext_lazy("Conversation manager"),
    "internal_state": gettext_lazy("Internal state"),
}
"""The columns of an agent that hold what it keeps, and what to call them."""


@dataclass(frozen=True, slots=True)
class State:
    """Something that is kept beside the messages."""

    label: str
    size: int
    url: str
    """Where it can be opened."""

    tree: SafeString | str = ""
    """The state, if it is small; empty if it is not read."""

    @property
    def empty(self) -> bool:
        """Whether nothing is in it."""
        return self.size <= _EMPTY


@dataclass(frozen=True, slots=True)
class AgentHead:
    """An agent, with its figures."""

    voice: Voice
    messages: int
    created_at: datetime
    updated_at: datetime
    states: list[State]

    @property
    def keeps(self) -> list[State]:
        """The states that hold anything."""
        return [state for state in self.states if not state.empty]


@dataclass(frozen=True, slots=True)
class OrchestratorHead:
    """An orchestrator of the session."""

    id: UUID
    name: str
    kind: str
    state: State


def agents(viewer: Viewer) -> list[AgentHead]:
    """Lists the agents of a session; states are read only for those who may read."""
    last = (
        SessionMessage.objects.using(viewer.using)
        .filter(agent=OuterRef("pk"), branch=MAIN_BRANCH)
        .order_by("-message_id")
        .values("message_id")[:1]
    )
    rows = SessionAgent.objects.using(viewer.using).filter(session=viewer.session)
    sizes = {f"{column}_size": OctetLength(column) for column in STATES}
    found = list(
        rows.annotate(last=Subquery(last), **sizes)
        .order_by("id")
        .values("id", "agent_id", "dialect", "created_at", "updated_at", "last", *sizes)[
            : AGENTS + 1
        ]
    )
    small = _small_states(rows, [row["id"] for row in found[:_DRAWN]]) if viewer.reads else {}
    heads = []
    for number, row in enumerate(found):
        voice = Voice(row["id"], row["agent_id"], row["dialect"], number % _COLOURS)
        states = [
            State(
                str(label),
                row[f"{column}_size"] or 0,
                f"{viewer.base}states/{column}/{row['id']}/",
                _drawn(small.get(row["id"], {}).get(f"{column}_small")),
            )
            for column, label in STATES.items()
        ]
        # Positions are dense from 0, so that the last one tells how many there are.
        messages = 0 if row["last"] is None else row["last"] + 1
        heads.append(AgentHead(voice, messages, row["created_at"], row["updated_at"], states))
    return heads


def voices(
    viewer: Viewer, listed: Sequence[AgentHead], speakers: Iterable[UUID]
) -> dict[UUID, Voice]:
    """Gives the voices of a page: those that it lists, and whoever else speaks on it."""
    known = {head.voice.id: head.voice for head in listed}
    missing = set(speakers) - known.keys()
    if missing:
        rows = SessionAgent.objects.using(viewer.using).filter(session=viewer.session)
        found = rows.filter(pk__in=missing).values_list("pk", "agent_id", "dialect")
        known |= {
            key: Voice(key, name, dialect, key.int % _COLOURS) for key, name, dialect in found
        }
    return known


def has_agent(viewer: Viewer, agent: UUID) -> bool:
    """Tells whether an agent is of the session."""
    rows = SessionAgent.objects.using(viewer.using)
    return rows.filter(pk=agent, session=viewer.session).exists()


def _small_states(rows: QuerySet[SessionAgent], keys: Sequence[UUID]) -> dict[UUID, dict[str, Any]]:
    columns = {f"{column}_small": _small(column) for column in STATES}
    found = rows.filter(pk__in=keys).annotate(**columns).values("id", *columns)
    return {row["id"]: row for row in found}


def _small(column: str) -> Case:
    """Gives a column's value if it is neither large nor empty; the rest stays where it is."""
    size = OctetLength(column)
    return Case(
        When(Q(_between(size)), then=F(column)),
        default=None,
        output_field=ExactJSONField(null=True),
    )


def _between(size: OctetLength) -> Q:
    return Q(GreaterThan(size, _EMPTY)) & Q(LessThanOrEqual(size, STATE))


def _drawn(value: Any) -> SafeString | str:
    return "" if value is None else tree(value)


def orchestrators(viewer: Viewer) -> list[OrchestratorHead]:
    """Lists the orchestrators of a session; states are read only for those who may read."""
    rows = SessionMultiAgent.objects.using(viewer.using).filter(session=viewer.session)
    columns: dict[str, Any] = {"size": OctetLength("state")}
    if viewer.reads:
        columns["small"] = _small("state")
    named = rows.annotate(**columns).order_by("id")
    found = named.values("id", "multi_agent_id", "kind", *columns)[:AGENTS]
    return [
        OrchestratorHead(
            row["id"],
            row["multi_agent_id"],
            row["kind"],
            State(
                _("State"),
                row["size"],
                f"{viewer.base}states/orchestrator/{row['id']}/",
                _drawn(row.get("small")),
            ),
        )
        for row in found
    ]


def metadata(viewer: Viewer) -> State:
    """Gives the session's metadata, if it is small and the viewer may read."""
    size = OctetLength(Cast("metadata", TextField()))
    rows = Session.objects.using(viewer.using).filter(pk=viewer.session.pk)
    columns: dict[str, Any] = {"size": size}
    if viewer.reads:
        columns["small"] = Case(When(_between(size), then=F("metadata")), default=None)
    found = rows.annotate(**columns).values(*columns).first() or {"size": 0}
    url = f"{viewer.base}states/metadata/{viewer.session.pk}/"
    return State(_("Metadata"), found["size"] or 0, url, _drawn(found.get("small")))


@dataclass(frozen=True, slots=True)
class Redactions:
    """Who redacted messages, and why, as far as that is on record."""

    events: Mapping[UUID, AuditEvent]
    """The events that messages name, by their keys; of each message the last one."""

    counts: Mapping[UUID | None, int]
    """How many redactions were of a message; and, under ``None``, of more than one."""

    def note(self, row: Row, *, reason: bool) -> str:
        """Says when a message was redacted, by whom and, if that may be told, why."""
        if row.redacted_at is None:
            return ""
        event = self.events.get(row.redaction) if row.redaction else None
        # Which of several changed a message is not kept: each of them may have.
        times = self.counts.get(row.id, 0) + self.counts.get(None, 0)
        return redaction_note(row.redacted_at, event, reason=reason, last=times > 1)


def redactions(viewer: Viewer, rows: Sequence[Row]) -> Redactions:
    """Finds the events that tell by whom and why messages were redacted."""
    keys = {row.redaction for row in rows if row.redaction}
    if not keys:
        return Redactions({}, {})
    events = AuditEvent.objects.using(viewer.using)
    about = Q(target__isnull=True) | Q(target__in=[row.id for row in rows if row.redaction])
    counts = (
        events.filter(about, session=viewer.session.pk, action=AuditEvent.Action.REDACTED)
        .order_by()
        .values_list("target")
        .annotate(count=Count("pk"))
    )
    return Redactions(events.in_bulk(list(keys)), dict(counts))


@dataclass(frozen=True, slots=True)
class Hit:
    """A message in which something was found."""

    message: UUID
    created_at: datetime
    role: str
    branch: int
    excerpt: str


def hits(viewer: Viewer, keys: Sequence[UUID], query: str) -> list[Hit]:
    """Reads where in messages something was found."""
    place = StrIndex(Lower("text"), Lower(Value(query)))
    start = Greatest(place - _BEFORE, 1)
    rows = SessionMessage.objects.using(viewer.using).filter(session=viewer.session, pk__in=keys)
    excerpt, first = Substr("text", start, _EXCERPT), Coalesce("source", "id")
    named = rows.order_by("id").annotate(excerpt=excerpt, first=first)
    found = list(named.values_list("first", "id", "created_at", "role", "branch", "excerpt"))
    main = {origin for origin, *_rest, branch, _excerpt in found if branch == MAIN_BRANCH}
    # A side branch repeats how the main one begins.
    return [
        Hit(key, when, role, branch, words)
        for origin, key, when, role, branch, words in found
        if branch == MAIN_BRANCH or origin not in main
    ]


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The conversations beside one, in the order of the list: the most recent first."""

    previous: UUID | None
    next: UUID | None


def neighbours(session: Session, rows: QuerySet[Session]) -> Neighbours:
    """Finds the conversations beside one."""
    when, key = session.last_activity_at, session.pk
    # The first condition is what an index serves; the second settles who was active together.
    newer = rows.filter(last_activity_at__gte=when).filter(
        Q(last_activity_at__gt=when) | Q(pk__gt=key)
    )
    older = rows.filter(last_activity_at__lte=when).filter(
        Q(last_activity_at__lt=when) | Q(pk__lt=key)
    )
    return Neighbours(
        newer.order_by("last_activity_at", "pk").values_list("pk", flat=True).first(),
        older.order_by("-last_activity_at", "-pk").values_list("pk", flat=True).first(),
    )


@dataclass(frozen=True, slots=True)
class Flag:
    """Something about a session that a reader should not overlook."""

    kind: str
    label: str


def flags(session: Session, now: datetime) -> list[Flag]:
    """Tells what is special about a session."""
    found = []
    if session.legal_hold:
        found.append(Flag("held", _("Legal hold")))
    if session.redactions:
        label = _("Redacted ×%(count)s") % {"count": session.redactions}
        found.append(Flag("redacted", label))
    if session.archived_at:
        found.append(Flag("archived", pgettext("session", "Archived")))
    if session.expires_at and session.expires_at <= now:
        found.append(Flag("expired", pgettext("session", "Expired")))
    return found
