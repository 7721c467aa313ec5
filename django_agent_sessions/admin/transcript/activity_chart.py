"""Activity charts of a session as SVG: turns, latency, tokens and tool calls per agent.

They use figures only, so users without the permission to read content see them, too. The SVG
contains presentation attributes and classes but no styles, and a table has the same data.
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
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from django_agent_sessions.admin.charts import picture, rect
from django_agent_sessions.admin.escaping import html
from django_agent_sessions.admin.formatting import SECOND, format_integer
from django_agent_sessions.models.functions import OctetLength, count_occurrences
from django_agent_sessions.models.stored_text import VISIBLE_TEXT
from django_agent_sessions.queries.message_pages import MessageQuery
from django_agent_sessions.values.records import add_known

from .view_models import AgentLabel

MAX_CHART_MESSAGES = 300
"""The most messages that the charts include."""

SEARCHED = 64 * 1024
"""Bytes of the largest payload in which calls are counted."""

CHART_COLUMNS = 100
_MAX_LANES = 6
_CHART_HEIGHT = 20
_BAR = 0.8
# tabindex -1: hundreds of tab stops would duplicate the keys j and k.
_LINK = '<a href="{}at={}#m-{}" tabindex="-1" aria-label="{}">{}</a>'
_CALL_MARKERS = (
    '"toolUse":{',
    '"type":"function_call"',
    '"type":"custom_tool_call"',
    '"type":"mcp_call"',
    '"type":"web_search_call"',
    '"type":"file_search_call"',
    '"type":"code_interpreter_call"',
)
_FAILURE_MARKER = '"status":"error"'


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
class AgentActivity:
    """The figures of an agent within the charts."""

    voice: AgentLabel
    messages: int = 0
    calls: int = 0
    failed: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    latencies: list[int] = field(default_factory=list)

    @property
    def median(self) -> int | None:
        """The median latency in milliseconds."""
        ranked = sorted(self.latencies)
        return ranked[len(ranked) // 2] if ranked else None

    @property
    def slowest(self) -> int | None:
        """The maximum latency in milliseconds."""
        return max(self.latencies, default=None)


@dataclass(frozen=True, slots=True)
class ChartRow:
    """One chart."""

    label: str
    peak: str
    svg: SafeString
    colour: int | None = None


@dataclass(frozen=True, slots=True)
class ActivityChart:
    """The charts and the table with the same data."""

    strips: list[ChartRow]
    figures: list[AgentActivity]
    messages: int
    cut: bool
    began: datetime
    ended: datetime


def activity_chart(
    found: Sequence[Point],
    voices: Mapping[UUID, AgentLabel],
    link: str,
    moment: Callable[[datetime, str], str],
) -> ActivityChart | None:
    """Return the charts of the newest messages, or None if there are no messages."""
    newest = found[:MAX_CHART_MESSAGES][::-1]
    if not newest:
        return None
    columns = _columns(newest)
    times = [moment(points[0].created_at, SECOND) for points in columns]
    figures = _figures(newest, voices)
    return ActivityChart(
        strips=[*_lanes(columns, times, figures, link), *_bars(columns, times)],
        figures=figures,
        messages=len(newest),
        cut=len(found) > MAX_CHART_MESSAGES,
        began=newest[0].created_at,
        ended=newest[-1].created_at,
    )


def points(scope: MessageQuery) -> list[Point]:
    """Read the figures of the newest messages, newest first, and of one more message."""
    small = Q(LessThanOrEqual(OctetLength(VISIBLE_TEXT), SEARCHED))

    def count_markers(*markers: str) -> Case:
        total = count_occurrences(*markers)
        return Case(When(small, then=total), default=Value(0), output_field=IntegerField())

    rows = scope.messages.annotate(
        calls=count_markers(*_CALL_MARKERS), failed=count_markers(_FAILURE_MARKER)
    )
    columns = [name for name in Point._fields if name != "agent"]
    return [
        Point(*values)
        for values in rows.annotate(agent_key=F("agent_id"))
        .order_by(f"-{scope.key}")
        .values_list(columns[0], "agent_id", *columns[1:])[: MAX_CHART_MESSAGES + 1]
    ]


def _figures(points: Sequence[Point], voices: Mapping[UUID, AgentLabel]) -> list[AgentActivity]:
    by_agent: dict[UUID, AgentActivity] = {}
    for point in points:
        voice = voices.get(point.agent) or AgentLabel(point.agent, "?", "", 0)
        figures = by_agent.setdefault(point.agent, AgentActivity(voice))
        figures.messages += 1
        figures.calls += point.calls
        figures.failed += point.failed
        figures.input_tokens = add_known(figures.input_tokens, point.input_tokens)
        figures.output_tokens = add_known(figures.output_tokens, point.output_tokens)
        if point.latency_ms is not None:
            figures.latencies.append(point.latency_ms)
    return sorted(by_agent.values(), key=lambda each: -each.messages)


def _columns(points: Sequence[Point]) -> list[list[Point]]:
    """Distribute the messages evenly over columns, in order."""
    count = min(len(points), CHART_COLUMNS)
    cuts = [len(points) * number // count for number in range(count + 1)]
    return [list(points[start:end]) for start, end in pairwise(cuts)]


def _lanes(
    columns: Sequence[list[Point]],
    times: Sequence[str],
    figures: Sequence[AgentActivity],
    link: str,
) -> list[ChartRow]:
    strips = []
    for each in figures[:_MAX_LANES]:
        css = f"as-fill-{each.voice.colour}"
        bars = []
        for number, points in enumerate(columns):
            if height := _bar_height(points, each.voice.id):
                when, key = times[number], SafeString(points[0].id)
                bar = rect(css, number, _CHART_HEIGHT - height, _BAR, height, when)
                bars.append(html(_LINK, link, key, key, when, bar))
        label = _("Turns of %(agent)s") % {"agent": each.voice.name}
        svg = _svg(label, len(columns), bars, role="group")
        strips.append(ChartRow(each.voice.name, str(each.messages), svg, each.voice.colour))
    return strips


def _bar_height(points: Sequence[Point], agent: UUID) -> int:
    """Return the height of an agent's bar: full if the agent replied in the column, else half."""
    own_points = [point for point in points if point.agent == agent]
    if not own_points:
        return 0
    return (
        _CHART_HEIGHT
        if any(point.role == "assistant" for point in own_points)
        else _CHART_HEIGHT // 2
    )


def _bars(columns: Sequence[list[Point]], times: Sequence[str]) -> list[ChartRow]:
    def latency(points: Sequence[Point]) -> int:
        return max((point.latency_ms or 0 for point in points), default=0)

    def tokens(points: Sequence[Point]) -> int:
        return sum((point.input_tokens or 0) + (point.output_tokens or 0) for point in points)

    def calls(points: Sequence[Point]) -> int:
        return sum(point.calls for point in points)

    def failures(points: Sequence[Point]) -> int:
        return sum(point.failed for point in points)

    strips = [
        _bar_strip(_("Latency"), columns, times, latency, _format_seconds),
        _bar_strip(_("Tokens"), columns, times, tokens, format_integer),
        _bar_strip(_("Tool calls"), columns, times, calls, format_integer, failures),
    ]
    return [strip for strip in strips if strip is not None]


def _bar_strip(
    label: str,
    columns: Sequence[list[Point]],
    times: Sequence[str],
    measure: Callable[[Sequence[Point]], int],
    format_value: Callable[[int], str],
    failures: Callable[[Sequence[Point]], int] | None = None,
) -> ChartRow | None:
    values = [measure(points) for points in columns]
    peak = max(values)
    if not peak:
        return None
    failed = [failures(points) if failures else 0 for points in columns]
    bars = []
    for number, value in enumerate(values):
        if (height := value / peak * _CHART_HEIGHT) > 0:
            css = "as-fill-bad" if failed[number] else "as-fill-plain"
            tip = f"{times[number]}: {format_value(value)}"
            bars.append(rect(css, number, _CHART_HEIGHT - height, _BAR, height, tip))
    return ChartRow(label, format_value(peak), _svg(label, len(columns), bars))


def _svg(
    label: str, columns: int, content: Sequence[SafeString], *, role: str = "img"
) -> SafeString:
    # A minimum width keeps the bars of a few messages narrow.
    width = max(columns, 40)
    return picture(width, _CHART_HEIGHT, content, {"role": role, "aria-label": label})


def _format_seconds(milliseconds: int) -> str:
    return _("%(seconds)s s") % {"seconds": formats.number_format(milliseconds / 1000, 1)}
