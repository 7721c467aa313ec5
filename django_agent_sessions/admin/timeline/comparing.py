"""Two branches side by side: what they have in common is one line, then each goes its own way."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from django_agent_sessions import windows
from django_agent_sessions.admin.transcript import heads
from django_agent_sessions.admin.transcript.pieces import Turn
from django_agent_sessions.admin.transcript.turns import Reading
from django_agent_sessions.admin.transcript.viewers import Viewer
from django_agent_sessions.models import MAIN_BRANCH, SessionAgent
from django_agent_sessions.owners import EVERYBODY
from django_agent_sessions.records import AgentRecord, BranchRecord
from django_agent_sessions.store import SessionStore
from django_agent_sessions.windows import Scope, Window


@dataclass(frozen=True, slots=True)
class Side:
    """A branch from where it goes its own way."""

    branch: BranchRecord
    turns: list[Turn]
    page: str
    """The branch's own page."""

    later: str
    """Where its page goes on behind what is shown; empty if nothing follows."""

    own: int
    """How many messages only this branch has."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two branches of an agent."""

    common: int
    """With how many messages that are the same both begin."""

    sides: list[Side]


def compare(viewer: Viewer, agent: AgentRecord, pair: list[BranchRecord]) -> Comparison:
    """Reads how two branches differ, and records that it is read.

    Args:
        viewer: Who looks at which session; content is left out for those who may not read.
        agent: The agent.
        pair: The branches.

    Returns:
        Both from their first message on that is not the same.
    """
    left, right = pair
    store = SessionStore(owner=EVERYBODY, using=viewer.using)
    common = store.common_length(agent, left.number, right.number)
    scopes = [
        Scope(viewer.session, SessionAgent(pk=agent.id), branch=branch.number) for branch in pair
    ]
    found = [windows.onwards(scope, common, originals=viewer.sees_originals) for scope in scopes]
    rows = [row for window in found for row in window.rows]
    viewer.record(None, page="compare", messages=len(rows))
    if viewer.reads:
        for scope, window in zip(scopes, found, strict=True):
            windows.fill(scope, window.rows, window.rows[0].id if window.rows else None)
    voices = heads.voices(viewer, [], [agent.id])
    note = partial(heads.redactions(viewer, rows).note, reason=viewer.reads)
    reading: Any = partial(Reading, voices, note, hidden=not viewer.reads)
    return Comparison(
        common,
        [
            _side(viewer, agent, branch, window, reading().turns(window), common)
            for branch, window in zip(pair, found, strict=True)
        ],
    )


def _side(
    viewer: Viewer,
    agent: AgentRecord,
    branch: BranchRecord,
    window: Window,
    turns: list[Turn],
    common: int,
) -> Side:
    # The main branch's page takes no number.
    number = None if branch.number == MAIN_BRANCH else branch.number
    query = partial(viewer.query, agent=agent.id, branch=number)
    later = query(after=window.rows[-1].id) if window.rows and window.later else ""
    return Side(branch, turns, f"{viewer.page}{query()}", later, branch.length - common)
