"""Comparison of two branches or sessions: their turns side by side, aligned by what they say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import groupby
from typing import NamedTuple
from uuid import UUID

from django.utils.safestring import SafeString

from django_agent_sessions.admin.formatting import NOTHING
from django_agent_sessions.admin.transcript import sidebar
from django_agent_sessions.admin.transcript.markup import Markup
from django_agent_sessions.admin.transcript.view_models import PartViewModel, SpeakerTurn
from django_agent_sessions.admin.transcript.viewers import Viewer
from django_agent_sessions.admin.transcript.views import read_turns
from django_agent_sessions.models import SessionAgent
from django_agent_sessions.queries import message_pages
from django_agent_sessions.queries.message_pages import MessagePage, MessageQuery
from django_agent_sessions.values.records import AgentRecord, BranchRecord

MESSAGES_PER_SIDE = 100
"""Messages of each session on a page."""


class ComparedSide(NamedTuple):
    """A side of a comparison: some messages of a conversation."""

    viewer: Viewer
    scope: MessageQuery
    page: MessagePage

    @property
    def last(self) -> UUID | None:
        """The last message, if there are later ones."""
        rows = self.page.rows
        return rows[-1].id if rows and self.page.later else None


class AlignedTurns(NamedTuple):
    """A turn of each side, or of one of them."""

    kind: str
    """``same``, ``changed``, ``left`` or ``right``."""

    left: SafeString
    right: SafeString


class Comparison(NamedTuple):
    """Two conversations side by side."""

    sides: list[ComparedSide]
    groups: list[tuple[bool, list[AlignedTurns]]]
    """Consecutive rows, and whether they are the same on both sides."""

    differences: int


def compare_branches(
    viewer: Viewer, agent: AgentRecord, pair: Sequence[BranchRecord], common: int
) -> Comparison:
    """Compare two branches of an agent after their common messages."""
    scopes = [
        MessageQuery(viewer.session, SessionAgent(pk=agent.id), branch=branch.number)
        for branch in pair
    ]
    return _compare(
        ComparedSide(viewer, scope, message_pages.page_from_position(scope, common))
        for scope in scopes
    )


def compare_sessions(
    viewers: Sequence[Viewer], cursors: Sequence[UUID | None]
) -> tuple[Comparison, list[UUID | None]]:
    """Compare the messages of two sessions after some messages; return the next page's, too."""
    sides, ends = [], []
    for viewer, cursor in zip(viewers, cursors, strict=True):
        scope = MessageQuery(viewer.session, main=True, eager=True)
        if cursor is None:
            page = message_pages.first_page(scope, count=MESSAGES_PER_SIDE)
        else:
            page = message_pages.page_after(scope, cursor, count=MESSAGES_PER_SIDE)
        sides.append(ComparedSide(viewer, scope, page))
        ends.append(page.rows[-1].id if page.rows else cursor)
    return _compare(sides), ends if any(side.page.later for side in sides) else []


def _compare(sides: Iterator[ComparedSide] | Sequence[ComparedSide]) -> Comparison:
    """Align the turns of two sides, and record that they are read."""
    sides = list(sides)
    left, right = (_turns(side) for side in sides)
    marks = [Markup(side.viewer) for side in sides]

    def markup(side: int, turn: SpeakerTurn | None) -> SafeString:
        return NOTHING if turn is None else marks[side].turns([turn])

    rows = [
        AlignedTurns(kind, markup(0, one), markup(1, other))
        for kind, one, other in _align(left, right)
    ]
    groups = [(same, list(found)) for same, found in groupby(rows, lambda row: row.kind == "same")]
    return Comparison(sides, groups, sum(row.kind != "same" for row in rows))


def _turns(side: ComparedSide) -> list[SpeakerTurn]:
    agents = {row.agent_id for row in side.page.rows}
    labels = sidebar.agent_labels(side.viewer, [], agents)
    return read_turns(side.viewer, side.scope, side.page, labels, page="compare")


_Pair = tuple[str, SpeakerTurn | None, SpeakerTurn | None]


def _align(left: list[SpeakerTurn], right: list[SpeakerTurn]) -> Iterator[_Pair]:
    """Pair equal turns, and between them those of the same role."""
    for equal, some, others in _aligned(left, right, _said):
        if equal:
            yield from (("same", *pair) for pair in zip(some, others, strict=True))
            continue
        for same_role, ours, theirs in _aligned(some, others, lambda turn: turn.role):
            if same_role:
                yield from (("changed", *pair) for pair in zip(ours, theirs, strict=True))
            else:
                yield from (("left", turn, None) for turn in ours)
                yield from (("right", None, turn) for turn in theirs)


def _aligned(
    left: list[SpeakerTurn], right: list[SpeakerTurn], key: Callable[[SpeakerTurn], str]
) -> Iterator[tuple[bool, list[SpeakerTurn], list[SpeakerTurn]]]:
    """Yield the parts of both sides, and whether their keys are equal."""
    ours, theirs = ([key(turn) for turn in turns] for turns in (left, right))
    for tag, a, b, c, d in SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
        yield tag == "equal", left[a:b], right[c:d]


def _said(turn: SpeakerTurn) -> str:
    """Return what a turn says and calls, without ids, times and figures."""
    pieces = [_content(piece) for entry in turn.entries for piece in entry.pieces]
    return repr((turn.role, pieces))


def _content(piece: PartViewModel) -> tuple[object, ...]:
    result = piece.result and _content(piece.result)
    inner = [_content(each) for each in piece.contents]
    # Hidden content is not known to be the same.
    kind = piece.kind if piece.kind != "hidden" else piece.message
    return kind, piece.name, piece.html, piece.tree, piece.status, piece.size, inner, result
