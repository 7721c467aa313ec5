"""A picture of a session over time: turns, latency, tokens and tool calls, per agent, as SVG.

It is drawn from figures alone, so also for those who may not read what was said. There are no
styles in it, only presentation attributes and classes, and a table says the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple
from uuid import UUID

from django.db.models import Case, F, IntegerField, Q, Value, When
from django.db.models.lookups import LessThanOrEqual
from django.utils import formats
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from django_agent_sessions.admin.moments import local
from django_agent_sessions.functions import OctetLength, counts
from django_agent_sessions.querysets import CONTENT_TEXT
from django_agent_sessions.windows import Scope

from .pieces import Voice

MESSAGES = 300
"""The newest messages, which the picture is about."""

SEARCHED = 64 * 1024
"""Bytes of the largest payload in which calls are counted."""

COLUMNS = 100
_LANES = 6
_HEIGHT = 20
_CALLS = (
    '"toolUse":{',
    '"type":"function_call"',
    '"type":"custom_tool_call"',
    '"type":"mcp_call"',
    '"type":"web_search_call"',
    '"type":"file_search_call"',
    '"type":"code_interpreter_call"',
)
_FAILED = '"status":"error"'


class Point(NamedTuple):
    """The figures of a message."""

    id: UUID
    agent: UUID
    role: str
    created_at: datetime
    input_tokens: int | None
    output_tokens: int | None
    latency_ms: int | None
    calls: int
    failed: int


@dataclass(slots=True)
class Figures:
    """What an agent did in the messages of the picture."""

    voice: Voice
    messages: int = 0
    calls: int = 0
    failed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    latencies: list[int] = field(default_factory=list)

    @property
    def median(self) -> int | None:
        """The latency in the middle, in milliseconds."""
        ranked = sorted(self.latencies)
        return ranked[len(ranked) // 2] if ranked else None

    @property
    def slowest(self) -> int | None:
        """The longest latency, in milliseconds."""
        return max(self.latencies, default=None)


@dataclass(frozen=True, slots=True)
class Strip:
    """One line of the picture."""

    label: str
    peak: str
    svg: SafeString
    colour: int | None = None


@dataclass(frozen=True, slots=True)
class Picture:
    """The picture, and the table that says the same."""

    strips: list[Strip]
    figures: list[Figures]
    messages: int
    cut: bool
    began: datetime
    ended: datetime


def picture(found: Sequence[Point], voices: Mapping[UUID, Voice], link: str) -> Picture | None:
    """Draws the newest messages."""
    shown = found[:MESSAGES][::-1]
    if not shown:
        return None
    columns = _columns(shown)
    figures = _figures(shown, voices)
    return Picture(
        strips=[*_lanes(columns, figures, link), *_bars(columns)],
        figures=figures,
        messages=len(shown),
        cut=len(found) > MESSAGES,
        began=shown[0].created_at,
        ended=shown[-1].created_at,
    )


def points(scope: Scope) -> list[Point]:
    """Reads the figures of the newest messages, the newest first, and of one more."""
    small = Q(LessThanOrEqual(OctetLength(CONTENT_TEXT), SEARCHED))

    def found(*needles: str) -> Case:
        total = sum((counts(needle) for needle in needles), Value(0))
        return Case(When(small, then=total), default=Value(0), output_field=IntegerField())

    rows = scope.messages.annotate(calls=found(*_CALLS), failed=found(_FAILED))
    columns = [name for name in Point._fields if name != "agent"]
    return [
        Point(*values)
        for values in rows.annotate(agent_key=F("agent_id"))
        .order_by(f"-{scope.key}")
        .values_list(columns[0], "agent_id", *columns[1:])[: MESSAGES + 1]
    ]


def _figures(points: Sequence[Point], voices: Mapping[UUID, Voice]) -> list[Figures]:
    by_agent: dict[UUID, Figures] = {}
    for point in points:
        voice = voices.get(point.agent) or Voice(point.agent, "?", "", 0)
        figures = by_agent.setdefault(point.agent, Figures(voice))
        figures.messages += 1
        figures.calls += point.calls
        figures.failed += point.failed
        figures.input_tokens += point.input_tokens or 0
        figures.output_tokens += point.output_tokens or 0
        if point.latency_ms is not None:
            figures.latencies.append(point.latency_ms)
    return sorted(by_agent.values(), key=lambda each: -each.messages)


def _columns(points: Sequence[Point]) -> list[list[Point]]:
    """Puts the messages into columns, evenly and in order."""
    count = min(len(points), COLUMNS)
    cuts = [len(points) * number // count for number in range(count + 1)]
    return [list(points[start:end]) for start, end in pairwise(cuts)]


def _lanes(columns: Sequence[list[Point]], figures: Sequence[Figures], link: str) -> list[Strip]:
    strips = []
    for each in figures[:_LANES]:
        bars = [
            (number, _share(points, each.voice.id), _moment(points[0]), points[0].id)
            for number, points in enumerate(columns)
        ]
        drawn = format_html_join(
            "",
            # Not in the order of the keyboard: hundreds of stops that j and k lead to as well.
            '<a href="{}at={}#m-{}" tabindex="-1" aria-label="{}">'
            '<rect class="as-fill-{}" x="{}" y="{}" width="0.8" height="{}">'
            "<title>{}</title></rect></a>",
            (
                (link, key, key, when, each.voice.colour, number, _HEIGHT - height, height, when)
                for number, height, when, key in bars
                if height
            ),
        )
        label = _("Turns of %(agent)s") % {"agent": each.voice.name}
        svg = _svg(label, len(columns), drawn, role="group")
        strips.append(Strip(each.voice.name, str(each.messages), svg, each.voice.colour))
    return strips


def _share(points: Sequence[Point], agent: UUID) -> int:
    """Gives the height of an agent's turns in a column; what it was told stands lower."""
    mine = [point for point in points if point.agent == agent]
    if not mine:
        return 0
    return _HEIGHT if any(point.role == "assistant" for point in mine) else _HEIGHT // 2


def _bars(columns: Sequence[list[Point]]) -> list[Strip]:
    def latency(points: Sequence[Point]) -> int:
        return max((point.latency_ms or 0 for point in points), default=0)

    def tokens(points: Sequence[Point]) -> int:
        return sum((point.input_tokens or 0) + (point.output_tokens or 0) for point in points)

    def calls(points: Sequence[Point]) -> int:
        return sum(point.calls for point in points)

    def failures(points: Sequence[Point]) -> int:
        return sum(point.failed for point in points)

    strips = [
        _strip(_("Latency"), columns, latency, _seconds),
        _strip(_("Tokens"), columns, tokens, _number),
        _strip(_("Tool calls"), columns, calls, _number, failures),
    ]
    return [strip for strip in strips if strip is not None]


def _strip(
    label: str,
    columns: Sequence[list[Point]],
    measure: Callable[[Sequence[Point]], int],
    words: Callable[[int], str],
    failures: Callable[[Sequence[Point]], int] | None = None,
) -> Strip | None:
    values = [measure(points) for points in columns]
    peak = max(values)
    if not peak:
        return None
    bad = [failures(points) if failures else 0 for points in columns]
    drawn = format_html_join(
        "",
        '<rect class="{}" x="{}" y="{}" width="0.8" height="{}"><title>{}</title></rect>',
        (
            (
                "as-fill-bad" if bad[number] else "as-fill-plain",
                number,
                f"{_HEIGHT - height:.2f}",
                f"{height:.2f}",
                f"{_moment(columns[number][0])}: {words(value)}",
            )
            for number, value in enumerate(values)
            if (height := value / peak * _HEIGHT) > 0
        ),
    )
    return Strip(label, words(peak), _svg(label, len(columns), drawn))


def _svg(label: str, columns: int, drawn: SafeString, *, role: str = "img") -> SafeString:
    # A few messages make a few bars at the left, not a few walls.
    return format_html(
        '<svg viewBox="0 0 {} {}" preserveAspectRatio="none" role="{}" aria-label="{}">{}</svg>',
        max(columns, 40),
        _HEIGHT,
        role,
        label,
        drawn,
    )


def _moment(point: Point) -> str:
    when: str = formats.date_format(local(point.created_at), "DATETIME_FORMAT")
    return when


def _seconds(milliseconds: int) -> str:
    return _("%(seconds)s s") % {"seconds": formats.number_format(milliseconds / 1000, 1)}


def _number(value: int) -> str:
    return str(formats.number_format(value, 0, force_grouping=True))
