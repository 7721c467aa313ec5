"""What a session's page shows around the messages: agents, states, redactions and hits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import (
    Case,
    Count,
    Exists,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    TextField,
    When,
)
from django.db.models.functions import Cast, Coalesce
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_agent_sessions.admin.run_status import (
    EMPTY_SIZE,
    MAX_STATE,
    is_small,
    member,
    small_state,
    waits,
)
from django_agent_sessions.content.dialects import displayable
from django_agent_sessions.models import (
    MAIN_BRANCH,
    AuditEvent,
    Session,
    SessionAgent,
    SessionMessage,
    SessionMultiAgent,
)
from django_agent_sessions.models.fields import ContentJSONField
from django_agent_sessions.models.functions import OctetLength
from django_agent_sessions.models.stored_text import StoredText
from django_agent_sessions.queries.message_pages import MessagePreview
from django_agent_sessions.queries.search import excerpt_of

from .json_tree import tree
from .text_rendering import redaction_note
from .view_models import AgentLabel
from .viewers import Viewer

MAX_AGENTS = 100
"""The most agents, and orchestrators, that a page lists."""

COLOURS = 6
"""Number of colours, and lanes, of agents."""

_AGENTS_WITH_STATES = 12

STATE_LABELS = {
    "state": gettext_lazy("State"),
    "conversation_manager_state": gettext_lazy("Conversation manager"),
    "internal_state": gettext_lazy("Internal state"),
}
"""Labels of the state columns of an agent."""


@dataclass(frozen=True, slots=True)
class State:
    """A stored state beside the messages."""

    label: str
    size: int
    url: str
    """URL of the state's own page."""

    tree: SafeString | str = ""
    """The state as HTML; empty if it is large or hidden."""

    @property
    def empty(self) -> bool:
        return self.size <= EMPTY_SIZE


@dataclass(frozen=True, slots=True)
class AgentSummary:
    """An agent with its figures."""

    voice: AgentLabel
    messages: int
    updated_at: datetime
    states: list[State]
    waits: bool
    """Whether its stored state says that a run waits for a person."""

    @property
    def stored_states(self) -> list[State]:
        """The states that are not empty."""
        return [state for state in self.states if not state.empty]


class NodeSummary(NamedTuple):
    """A node of an orchestrator."""

    name: str
    status: str
    """As its SDK calls it; empty if the state does not tell."""

    agent: AgentSummary | None
    """The agent with the node's messages, if it has any."""


@dataclass(frozen=True, slots=True)
class OrchestratorSummary:
    """An orchestrator of the session, with its nodes in the order in which they ran."""

    id: UUID
    name: str
    kind: str
    state: State
    status: str
    nodes: list[NodeSummary]


def agent_summaries(viewer: Viewer) -> list[AgentSummary]:
    """List the agents of a session; read states only if the viewer may read content."""
    last = (
        SessionMessage.objects.using(viewer.using)
        .filter(agent=OuterRef("pk"), branch=MAIN_BRANCH)
        .order_by("-message_id")
        .values("message_id")[:1]
    )
    rows = SessionAgent.objects.using(viewer.using).filter(session=viewer.session)
    sizes = {f"{column}_size": OctetLength(column) for column in STATE_LABELS}
    agent_rows = list(
        rows.annotate(last=Subquery(last), **sizes)
        .order_by("id")
        .values("id", "agent_id", "dialect", "updated_at", "last", *sizes)[: MAX_AGENTS + 1]
    )
    small = [
        row["id"]
        for row in agent_rows[:_AGENTS_WITH_STATES]
        if any(EMPTY_SIZE < (row[size] or 0) <= MAX_STATE for size in sizes)
    ]
    small_states = _read_small_states(rows, small) if viewer.can_read and small else {}
    heads = []
    for number, row in enumerate(agent_rows):
        voice = AgentLabel(row["id"], row["agent_id"], row["dialect"], number % COLOURS)
        small_of_row = small_states.get(row["id"], {})
        states = [
            State(
                str(label),
                row[f"{column}_size"] or 0,
                f"{viewer.base_url}states/{column}/{row['id']}/",
                _state_html(small_of_row.get(f"{column}_small")),
            )
            for column, label in STATE_LABELS.items()
        ]
        # Positions are dense from 0, so the last one yields the count.
        messages = 0 if row["last"] is None else row["last"] + 1
        waiting = waits(small_of_row.get("state_small"), small_of_row.get("internal_state_small"))
        heads.append(AgentSummary(voice, messages, row["updated_at"], states, waiting))
    return heads


def agent_labels(
    viewer: Viewer, listed: Sequence[AgentSummary], speakers: Iterable[UUID]
) -> dict[UUID, AgentLabel]:
    """Return the listed agents and those of the speakers, by primary key."""
    by_key = {head.voice.id: head.voice for head in listed}
    missing = set(speakers) - by_key.keys()
    if missing:
        rows = SessionAgent.objects.using(viewer.using).filter(session=viewer.session)
        values = rows.filter(pk__in=missing).values_list("pk", "agent_id", "dialect")
        by_key |= {
            key: AgentLabel(key, name, dialect, key.int % COLOURS) for key, name, dialect in values
        }
    return by_key


def has_agent(viewer: Viewer, agent: UUID) -> bool:
    rows = SessionAgent.objects.using(viewer.using)
    return rows.filter(pk=agent, session=viewer.session).exists()


def _read_small_states(
    rows: QuerySet[SessionAgent], keys: Sequence[UUID]
) -> dict[UUID, dict[str, Any]]:
    columns = {f"{column}_small": small_state(column) for column in STATE_LABELS}
    values = rows.filter(pk__in=keys).annotate(**columns).values("id", *columns)
    return {row["id"]: row for row in values}


def _state_html(value: Any) -> SafeString | str:
    return "" if value is None else tree(value)


def orchestrators(viewer: Viewer, agents: Sequence[AgentSummary]) -> list[OrchestratorSummary]:
    """List the orchestrators of a session; read states only if the viewer may read content."""
    rows = SessionMultiAgent.objects.using(viewer.using).filter(session=viewer.session)
    columns: dict[str, Any] = {"size": OctetLength("state")}
    if viewer.can_read:
        columns["small"] = small_state("state")
    annotated = rows.annotate(**columns).order_by("id")
    values = annotated.values("id", "multi_agent_id", "kind", *columns)[:MAX_AGENTS]
    return [
        OrchestratorSummary(
            row["id"],
            row["multi_agent_id"],
            row["kind"],
            State(
                _("State"),
                row["size"],
                f"{viewer.base_url}states/orchestrator/{row['id']}/",
                _state_html(row.get("small")),
            ),
            _word(member(row.get("small"), "status")),
            _nodes(row["multi_agent_id"], row.get("small"), agents),
        )
        for row in values
    ]


def _nodes(name: str, state: Any, agents: Sequence[AgentSummary]) -> list[NodeSummary]:
    """Return the nodes that a state names and those that said something."""
    prefix = f"{name}/"
    by_name = {
        agent.voice.name.removeprefix(prefix): agent
        for agent in agents
        if agent.voice.name.startswith(prefix)
    }
    results = member(state, "node_results")
    statuses = {
        node: _word(member(outcome, "status"))
        for node, outcome in (results.items() if isinstance(results, dict) else ())
    }
    for key in ("completed_nodes", "failed_nodes", "interrupted_nodes", "next_nodes_to_execute"):
        for node in _texts(member(state, key)):
            statuses.setdefault(node, key.split("_")[0])
    ran = (*_texts(member(state, "execution_order")), *_texts(member(state, "node_history")))
    names = list(dict.fromkeys((*ran, *by_name, *statuses)))[:MAX_AGENTS]
    return [
        NodeSummary(displayable(node), statuses.get(node, ""), by_name.get(node)) for node in names
    ]


def _texts(value: Any) -> list[str]:
    values = value if isinstance(value, list) else ()
    return [one for one in values if isinstance(one, str)]


def _word(value: Any) -> str:
    return displayable(value)[:40] if isinstance(value, str) else ""


def status_of(
    viewer: Viewer,
    agents: Sequence[AgentSummary],
    orchestrators: Sequence[OrchestratorSummary],
    unanswered: bool,
) -> tuple[str, str] | None:
    """Return why a session does not run, as a kind and a label, if what is stored tells it.

    ``unanswered`` says that an agent's last message calls a tool.
    """
    if viewer.is_running:
        return None
    statuses = {each.status for each in orchestrators}
    if "interrupted" in statuses or any(agent.waits for agent in agents):
        return "waiting", _("Waiting for a person")
    if "failed" in statuses:
        return "failed", _("Failed")
    return ("failed", _("Interrupted")) if unanswered else None


@dataclass(frozen=True, slots=True)
class Redactions:
    """The audit events of the redactions of some messages."""

    events: Mapping[UUID, AuditEvent]
    """The last redaction of each message, by the key of the event."""

    counts: Mapping[UUID | None, int]
    """Number of redactions by message; ``None`` counts those of several messages."""

    def note(self, row: MessagePreview, *, reason: bool) -> str:
        """Return when and by whom a message was redacted, and if permitted why."""
        if row.redacted_at is None:
            return ""
        event = self.events.get(row.redaction) if row.redaction else None
        # A redaction of several messages does not record which: count it for each.
        times = self.counts.get(row.id, 0) + self.counts.get(None, 0)
        return redaction_note(row.redacted_at, event, reason=reason, last=times > 1)


def redactions(viewer: Viewer, rows: Sequence[MessagePreview]) -> Redactions:
    """Read the audit events of the redactions of messages."""
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
class SearchHit:
    """A message that a search found."""

    message: UUID
    created_at: datetime
    role: str
    branch: int
    excerpt: str


def hits(viewer: Viewer, keys: Sequence[UUID], query: str) -> list[SearchHit]:
    """Read excerpts of the messages that a search found."""
    rows = SessionMessage.objects.using(viewer.using).filter(session=viewer.session, pk__in=keys)
    first = Coalesce("source", "id")
    annotated = rows.order_by("id").annotate(excerpt=excerpt_of(query), first=first)
    matches = list(annotated.values_list("first", "id", "created_at", "role", "branch", "excerpt"))
    main = {origin for origin, *_rest, branch, _excerpt in matches if branch == MAIN_BRANCH}
    # A side branch contains copies of the first messages of the main branch.
    return [
        SearchHit(key, when, role, branch, words)
        for origin, key, when, role, branch, words in matches
        if branch == MAIN_BRANCH or origin not in main
    ]


@dataclass(frozen=True, slots=True)
class BesideConversation:
    """What a page shows beside a conversation, read by one statement."""

    metadata: State
    """The session's metadata, with its content if it is small and the viewer may read it."""

    has_orchestrators: bool
    previous: UUID | None
    """The previous session in the order of the list."""

    next: UUID | None


def beside(viewer: Viewer, listed: QuerySet[Session]) -> BesideConversation:
    """Read what a page shows beside a conversation; ``listed`` are the sessions of the list."""
    session = viewer.session
    size = OctetLength(Cast("metadata", TextField()))
    orchestrators = SessionMultiAgent.objects.using(viewer.using).filter(session=session)
    newer, older = _neighbours(session, listed)
    columns: dict[str, Any] = {
        "size": size,
        "orchestrated": Exists(orchestrators),
        "previous": Subquery(newer.values("pk")[:1]),
        "next": Subquery(older.values("pk")[:1]),
    }
    if viewer.can_read:
        columns["small"] = Case(
            When(is_small(size), then=StoredText("metadata", output_field=ContentJSONField())),
            default=None,
            output_field=ContentJSONField(null=True),
        )
    rows = Session.objects.using(viewer.using).filter(pk=session.pk).order_by()
    # A session that was deleted in the meantime has none of it.
    values: dict[str, Any] = rows.annotate(**columns).values(*columns).first() or {}
    url = f"{viewer.base_url}states/metadata/{session.pk}/"
    return BesideConversation(
        State(_("Metadata"), values.get("size") or 0, url, _state_html(values.get("small"))),
        values.get("orchestrated", False),
        values.get("previous"),
        values.get("next"),
    )


def _neighbours(
    session: Session, rows: QuerySet[Session]
) -> tuple[QuerySet[Session], QuerySet[Session]]:
    when, key = session.last_activity_at, session.pk
    # The first condition uses the index; the second breaks ties.
    newer = rows.filter(last_activity_at__gte=when).filter(
        Q(last_activity_at__gt=when) | Q(pk__gt=key)
    )
    older = rows.filter(last_activity_at__lte=when).filter(
        Q(last_activity_at__lt=when) | Q(pk__lt=key)
    )
    return newer.order_by("last_activity_at", "pk"), older.order_by("-last_activity_at", "-pk")
