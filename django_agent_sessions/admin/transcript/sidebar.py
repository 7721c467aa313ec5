"""What a session's page shows around the messages: agents, states, hits, forks and branches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import (
    Case,
    Exists,
    OuterRef,
    QuerySet,
    Subquery,
    TextField,
    When,
)
from django.db.models.functions import Cast, Coalesce
from django.http import Http404
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
from django_agent_sessions.admin.titles import with_shown_titles
from django_agent_sessions.content.dialects import displayable
from django_agent_sessions.models import (
    MAIN_BRANCH,
    Branch,
    Session,
    SessionAgent,
    SessionMessage,
    SessionMultiAgent,
)
from django_agent_sessions.models.fields import ContentJSONField
from django_agent_sessions.models.functions import OctetLength
from django_agent_sessions.models.stored_text import StoredText
from django_agent_sessions.queries.message_pages import MessageQuery
from django_agent_sessions.queries.search import excerpt_of
from django_agent_sessions.timeline.references import has_branch, parse_branch_number

from .json_tree import tree
from .view_models import AgentLabel
from .viewers import Viewer

MAX_AGENTS = 100
"""The most agents, and orchestrators, that a page lists."""

COLOURS = 6
"""Number of colours, and lanes, of agents."""

MAX_FORKS = 20
"""The most forks that a page lists."""

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


def hits(viewer: Viewer, keys: Sequence[UUID], query: str) -> list[Any]:
    """Read when the messages that a search found were written, and excerpts of them."""
    rows = SessionMessage.objects.using(viewer.using).filter(session=viewer.session, pk__in=keys)
    first = Coalesce("source", "id")
    annotated = rows.order_by("id").annotate(excerpt=excerpt_of(query), first=first)
    columns = ("first", "id", "created_at", "branch", "excerpt")
    matches = list(annotated.values_list(*columns, named=True))
    main = {row.first for row in matches if row.branch == MAIN_BRANCH}
    # A side branch contains copies of the first messages of the main branch.
    return [row for row in matches if row.branch == MAIN_BRANCH or row.first not in main]


class BesideConversation(NamedTuple):
    """What a page shows beside a conversation, read by one statement."""

    metadata: State
    """The session's metadata, with its content if it is small and the viewer may read it."""

    has_orchestrators: bool
    previous: UUID | None
    """The previous session in the order of the list."""

    next: UUID | None


def beside(viewer: Viewer) -> BesideConversation:
    """Read what a page shows beside a conversation."""
    session, listed = viewer.session, viewer.listed()
    size = OctetLength(Cast("metadata", TextField()))
    newer = listed.more_recent_than(session.last_activity_at, session.pk)
    older = listed.less_recent_than(session.last_activity_at, session.pk)
    columns: dict[str, Any] = {
        "size": size,
        "orchestrated": Exists(SessionMultiAgent.objects.filter(session=session)),
        "previous": Subquery(newer.order_by("last_activity_at", "pk").values("pk")[:1]),
        "next": Subquery(older.order_by("-last_activity_at", "-pk").values("pk")[:1]),
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


def session_relations(viewer: Viewer) -> dict[str, Any]:
    """Return what a session was forked from, and its forks, of what the viewer may see."""
    session, may_view = viewer.session, viewer.model_admin.has_view_permission
    columns = ("id", "session_id", "namespace", "owner_id", "created_at", "title")
    rows = viewer.listed().only(*columns).order_by("-id")
    line = rows.filter(forked_from=session.forked_from or session.pk)
    of_session = line.filter(origin__fork__session=str(session.pk))[: MAX_FORKS + 1]
    fork_rows = with_shown_titles(viewer.request, of_session)
    forks = [fork for fork in fork_rows if may_view(viewer.request, fork)]
    relations = {"forks": forks[:MAX_FORKS], "more": len(fork_rows) > MAX_FORKS}
    if session.forked_from is not None:
        fork: Any = session.origin["fork"]  # type: ignore[index] # the origin of a fork
        origin = next(
            iter(with_shown_titles(viewer.request, rows.filter(pk=fork["session"]))), None
        )
        is_visible = origin is not None and may_view(viewer.request, origin)
        relations |= {"is_fork": True, "origin": origin if is_visible else None}
        relations |= {"message": fork["message"]}
    return relations if session.forked_from or forks else {}


def branch_number(viewer: Viewer, agent: UUID, text: str) -> int:
    """Parse the branch number of a URL; raise Http404 if the agent has no such branch."""
    number = parse_branch_number(text)
    if number is None or not has_branch(viewer.using, agent, number):
        raise Http404
    return number


def side_branch_of(viewer: Viewer, message: UUID) -> tuple[UUID, int] | None:
    """Return the agent and number of the side branch of a message; None on a main branch."""
    rows = SessionMessage.objects.using(viewer.using).filter(session=viewer.session, pk=message)
    agent_and_number = rows.exclude(branch=MAIN_BRANCH).values_list("agent_id", "branch").first()
    return agent_and_number


def selected_side_branch(viewer: Viewer, scope: MessageQuery) -> dict[str, Any] | None:
    if scope.agent is None or scope.branch == MAIN_BRANCH:
        return None
    key, number = scope.agent.pk, scope.branch
    agents = SessionAgent.objects.using(viewer.using).filter(pk=key)
    rows = Branch.objects.using(viewer.using).filter(agent=key, number=number)
    name = rows.values_list("name", flat=True).first() or f"branch-{number}"
    agent_id = agents.values_list("agent_id", flat=True).get()
    return {"agent": key, "agent_id": agent_id, "number": number, "name": name}
