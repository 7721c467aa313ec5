"""Comparison of two branches: the number of common messages, then the rest of each branch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.utils.safestring import SafeString

from django_agent_sessions.admin.transcript import sidebar
from django_agent_sessions.admin.transcript.builder import TranscriptBuilder
from django_agent_sessions.admin.transcript.markup import Markup
from django_agent_sessions.admin.transcript.view_models import SpeakerTurn
from django_agent_sessions.admin.transcript.viewers import Viewer
from django_agent_sessions.models import MAIN_BRANCH, SessionAgent
from django_agent_sessions.queries import message_pages
from django_agent_sessions.queries.message_pages import MessagePage, MessageQuery
from django_agent_sessions.store import SessionStore
from django_agent_sessions.values.owners import EVERYBODY
from django_agent_sessions.values.records import AgentRecord, BranchRecord


@dataclass(frozen=True, slots=True)
class ComparedBranch:
    """The messages of a branch after the common ones."""

    branch: BranchRecord
    conversation: SafeString
    page: str
    """URL of the branch's own page."""

    later: str
    """Query of the messages after the shown ones; empty if there are none."""

    own: int
    """Number of messages that only this branch has."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two branches of an agent."""

    common: int
    """Number of identical messages at the start of both branches."""

    sides: list[ComparedBranch]


def compare(viewer: Viewer, agent: AgentRecord, pair: list[BranchRecord]) -> Comparison:
    """Compare two branches, and record that their messages are read."""
    left, right = pair
    store = SessionStore(owner=EVERYBODY, using=viewer.using)
    common = store.branches.common_length(agent, left.number, right.number)
    scopes = [
        MessageQuery(viewer.session, SessionAgent(pk=agent.id), branch=branch.number)
        for branch in pair
    ]
    windows_read = [
        message_pages.page_from_position(scope, common, originals=viewer.can_view_originals)
        for scope in scopes
    ]
    rows = [row for window in windows_read for row in window.rows]
    viewer.record(None, page="compare", messages=len(rows))
    if viewer.can_read:
        for scope, window in zip(scopes, windows_read, strict=True):
            message_pages.read_payloads(
                scope, window.rows, window.rows[0].id if window.rows else None
            )
    voices = sidebar.agent_labels(viewer, [], [agent.id])
    note = partial(sidebar.redactions(viewer, rows).note, reason=viewer.can_read)
    build_turns: Any = partial(TranscriptBuilder, voices, note, hidden=not viewer.can_read)
    return Comparison(
        common,
        [
            _side(viewer, agent, branch, window, build_turns().turns(window), common)
            for branch, window in zip(pair, windows_read, strict=True)
        ],
    )


def _side(
    viewer: Viewer,
    agent: AgentRecord,
    branch: BranchRecord,
    window: MessagePage,
    turns: Sequence[SpeakerTurn],
    common: int,
) -> ComparedBranch:
    # The main branch's page has no branch parameter.
    number = None if branch.number == MAIN_BRANCH else branch.number
    query = partial(viewer.query, agent=agent.id, branch=number)
    later = query(after=window.rows[-1].id) if window.rows and window.later else ""
    conversation, page = Markup(viewer).turns(turns), f"{viewer.page}{query()}"
    return ComparedBranch(branch, conversation, page, later, branch.length - common)
