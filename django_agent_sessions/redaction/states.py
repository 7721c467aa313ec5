"""Looking for what to redact in what belongs to a session beside its messages."""

from __future__ import annotations

from typing import Any, TypeVar
from uuid import UUID

from django.db.models import Model, QuerySet

from django_agent_sessions.models import Branch, Session, SessionAgent, SessionMultiAgent

from .findings import Findings, below, place_of
from .scopes import Place

M = TypeVar("M", bound=Model)

_TITLE_LENGTH = 255
_FORK = "fork"


def look_at_states(
    using: str, session: Session, findings: Findings, *, locked: bool
) -> dict[UUID, str]:
    """Looks at a session's own columns, its agents, orchestrators and branches."""
    dialects: dict[UUID, str] = {}

    def owned(rows: QuerySet[M]) -> QuerySet[M]:
        rows = rows.using(using).filter(session=session).order_by("pk")
        # A state that somebody writes without an epoch must not come in between.
        return rows.select_for_update() if locked else rows

    _look_at_session(session, findings)
    for agent in owned(SessionAgent.objects.all()):
        dialects[agent.pk] = agent.dialect
        _look_at_agent(agent, findings)
    for orchestrator in owned(SessionMultiAgent.objects.all()):
        _look_at_orchestrator(orchestrator, findings)
    # Programs ask for a branch by its name.
    for branch in Branch.objects.using(using).filter(session=session).order_by("pk"):
        findings.keep_id(branch.name, place_of("branch", branch, str(branch.number), "name"))
    return dialects


def _look_at_session(session: Session, findings: Findings) -> None:
    columns: dict[str, Any] = {}
    for name in ("title", "metadata", "origin"):
        value, place = getattr(session, name), place_of("session", session, "", name)
        changed: Any
        if name == "origin" and session.forked_from and isinstance(value, dict):
            changed = _without_line(value, place, findings)
        else:
            changed = findings.mask(value, place, free=True)
        if changed is not value:
            columns[name] = changed[:_TITLE_LENGTH] if name == "title" else changed
    findings.change(session, columns)
    for name in ("session_id", "external_id", "namespace"):
        findings.keep_id(getattr(session, name), place_of("session", session, "", name))


def _without_line(origin: dict[str, Any], place: Place, findings: Findings) -> dict[str, Any]:
    """Masks an origin, but not what it was forked from: by that forks are found."""
    for key in origin.get(_FORK, {}).get("line", ()):
        findings.keep_id(str(key), below(place, (_FORK,)))
    rest = {key: value for key, value in origin.items() if key != _FORK}
    changed = findings.mask(rest, place, free=True)
    return origin if changed is rest else {**changed, _FORK: origin[_FORK]}


def _look_at_agent(agent: SessionAgent, findings: Findings) -> None:
    columns: dict[str, Any] = {}
    for name in ("state", "conversation_manager_state", "internal_state"):
        value = getattr(agent, name)
        place = place_of("agent", agent, agent.agent_id, name)
        changed = findings.mask(value, place, free=name == "state")
        if changed is not value:
            columns[name] = changed
    findings.change(agent, columns)
    findings.keep_id(agent.agent_id, place_of("agent", agent, agent.agent_id, "agent_id"))


def _look_at_orchestrator(row: SessionMultiAgent, findings: Findings) -> None:
    place = place_of("orchestrator", row, row.multi_agent_id, "state")
    state = row.state
    if isinstance(state, dict) and "id" in state:
        # The program's name for its orchestrator, by which it is found.
        own = state["id"]
        if isinstance(own, str):
            findings.keep_id(own, below(place, ("id",)))
        rest = {key: value for key, value in state.items() if key != "id"}
        changed = findings.mask(rest, place)
        changed = state if changed is rest else {"id": own, **changed}
    else:
        changed = findings.mask(state, place)
    if changed is not state:
        findings.change(row, {"state": changed})
    named = place_of("orchestrator", row, row.multi_agent_id, "multi_agent_id")
    findings.keep_id(row.multi_agent_id, named)
