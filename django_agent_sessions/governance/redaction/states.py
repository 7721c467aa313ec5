"""Redaction in the rows of a session other than messages."""

from __future__ import annotations

from typing import Any, TypeVar
from uuid import UUID

from django.db.models import Model, QuerySet

from django_agent_sessions.models import Branch, Session, SessionAgent, SessionMultiAgent

from .findings import Findings, place_of, with_subpath
from .scopes import Place

M = TypeVar("M", bound=Model)

_TITLE_LENGTH = 255
_FORK = "fork"


def search_states(
    using: str, session: Session, findings: Findings, *, locked: bool
) -> dict[UUID, str]:
    """Search a session's columns, agents, orchestrators and branches; return agents' dialects."""
    dialects: dict[UUID, str] = {}

    def rows_of_session(rows: QuerySet[M]) -> QuerySet[M]:
        rows = rows.using(using).filter(session=session).order_by("pk")
        # States can be written without a check of the epoch, so that their rows are locked.
        return rows.select_for_update() if locked else rows

    _search_session(session, findings)
    for agent in rows_of_session(SessionAgent.objects.all()):
        dialects[agent.pk] = agent.dialect
        _search_agent(agent, findings)
    for orchestrator in rows_of_session(SessionMultiAgent.objects.all()):
        _search_orchestrator(orchestrator, findings)
    # Programs look up a branch by its name, so that it is only recorded.
    for branch in Branch.objects.using(using).filter(session=session).order_by("pk"):
        findings.keep_id(branch.name, place_of("branch", branch, str(branch.number), "name"))
    return dialects


def _search_session(session: Session, findings: Findings) -> None:
    columns: dict[str, Any] = {}
    for name in ("title", "metadata", "origin"):
        value, place = getattr(session, name), place_of("session", session, "", name)
        changed: Any
        if name == "origin" and session.forked_from and isinstance(value, dict):
            changed = _mask_origin(value, place, findings)
        else:
            changed = findings.mask(value, place, free=True)
        if changed is not value:
            columns[name] = changed[:_TITLE_LENGTH] if name == "title" else changed
    findings.change(session, columns)
    for name in ("session_id", "external_id", "namespace", "scope"):
        findings.keep_id(getattr(session, name), place_of("session", session, "", name))


def _mask_origin(origin: dict[str, Any], place: Place, findings: Findings) -> dict[str, Any]:
    """Mask an origin except its line of ancestors, by which forks are found."""
    for key in origin.get(_FORK, {}).get("line", ()):
        findings.keep_id(str(key), with_subpath(place, (_FORK,)))
    rest = {key: value for key, value in origin.items() if key != _FORK}
    changed = findings.mask(rest, place, free=True)
    return origin if changed is rest else {**changed, _FORK: origin[_FORK]}


def _search_agent(agent: SessionAgent, findings: Findings) -> None:
    columns: dict[str, Any] = {}
    for name in ("state", "conversation_manager_state", "internal_state"):
        value = getattr(agent, name)
        place = place_of("agent", agent, agent.agent_id, name)
        changed = findings.mask(value, place, free=name == "state")
        if changed is not value:
            columns[name] = changed
    findings.change(agent, columns)
    findings.keep_id(agent.agent_id, place_of("agent", agent, agent.agent_id, "agent_id"))


def _search_orchestrator(row: SessionMultiAgent, findings: Findings) -> None:
    place = place_of("orchestrator", row, row.multi_agent_id, "state")
    state = row.state
    if isinstance(state, dict) and "id" in state:
        # The application looks up its orchestrator by this id.
        orchestrator_id = state["id"]
        if isinstance(orchestrator_id, str):
            findings.keep_id(orchestrator_id, with_subpath(place, ("id",)))
        rest = {key: value for key, value in state.items() if key != "id"}
        changed = findings.mask(rest, place)
        changed = state if changed is rest else {"id": orchestrator_id, **changed}
    else:
        changed = findings.mask(state, place)
    if changed is not state:
        findings.change(row, {"state": changed})
    place_of_id = place_of("orchestrator", row, row.multi_agent_id, "multi_agent_id")
    findings.keep_id(row.multi_agent_id, place_of_id)
