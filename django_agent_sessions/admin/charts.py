"""Charts as server-side SVG, without scripts and inline styles.

The SVG contains no text, because it is stretched to the available width and would distort it. The
template ``agent_sessions/admin/chart.html`` adds the labels and a table of the data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

from .formatting import format_duration, format_integer

HEIGHT = 100
"""The height of every chart in SVG units; the stylesheet sets the pixels."""

_SLOT = 10
_GAP = 2
# More points would hide the line. A point without neighbours is always drawn: it has no line.
_MAX_POINTS = 31
_AXIS_STEPS = (2, 4, 6, 8, 10)


@dataclass(frozen=True, slots=True)
class Series:
    """One colour's values."""

    name: str
    colour: str
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Mark:
    """A rectangle; its numbers are strings because templates localize numbers."""

    colour: str
    x: str
    y: str
    width: str
    height: str


@dataclass(frozen=True, slots=True)
class Stroke:
    """A line and its points, as SVG paths."""

    colour: str
    path: str
    points: str


@dataclass(frozen=True, slots=True)
class Slot:
    """The tooltip area of one label."""

    x: str
    width: str
    tip: str


@dataclass(frozen=True, slots=True)
class Chart:
    """The context of the template ``chart.html``."""

    slug: str
    title: str
    description: str
    width: int
    ticks: list[str]
    labels: list[str]
    legend: list[Series]
    marks: list[Mark]
    strokes: list[Stroke]
    slots: list[Slot]
    columns: list[str]
    rows: list[list[str]]


@dataclass(frozen=True, slots=True)
class Axis:
    """The labels of the horizontal axis."""

    name: str
    short: Sequence[str]
    long: Sequence[str]


def bar_chart(
    slug: str, title: str, axis: Axis, series: Sequence[Series], write: Callable[[float], str]
) -> Chart:
    """Return a stacked bar chart."""
    stacks = [sum(filter(None, values)) for values in zip(*(s.values for s in series), strict=True)]
    top = axis_maximum(max(stacks, default=0))
    marks = []
    for number in range(len(axis.short)):
        base = 0.0
        for layer in series:
            value = layer.values[number] or 0
            if value > 0:
                base += value
                marks.append(_bar(layer.colour, number, base, value, top))
    return _chart(slug, title, axis, series, write, top, marks=marks)


def line_chart(
    slug: str, title: str, axis: Axis, series: Sequence[Series], write: Callable[[float], str]
) -> Chart:
    """Return a line chart; a value of None makes a gap."""
    top = axis_maximum(max((value for line in series for value in line.values if value), default=0))
    strokes = [_stroke(line, top) for line in series]
    return _chart(slug, title, axis, series, write, top, strokes=strokes)


def axis_maximum(value: float) -> float:
    """Return the round upper end of a scale for a maximum value."""
    power = 1
    while value > 10 * power:
        power *= 10
    return float(next(step for step in _AXIS_STEPS if step * power >= value) * power)


def bar_width(value: float, largest: float) -> str:
    """Return the width of a bar in percent."""
    return f"{100 * value / largest:.2f}" if largest > 0 else "0"


def _chart(
    slug: str,
    title: str,
    axis: Axis,
    series: Sequence[Series],
    write: Callable[[float], str],
    top: float,
    *,
    marks: Sequence[Mark] = (),
    strokes: Sequence[Stroke] = (),
) -> Chart:
    cell = format_duration if write is format_duration else format_integer
    rows = [
        [label, *(cell(value) if value is not None else "–" for value in values)]
        for label, *values in zip(axis.long, *(line.values for line in series), strict=True)
    ]
    return Chart(
        slug=slug,
        title=title,
        description=_description(series, axis, cell),
        width=_SLOT * len(axis.short),
        ticks=[write(top), write(top / 2), write(0)],
        labels=[axis.short[index] for index in (0, len(axis.short) // 2, -1)],
        legend=list(series) if len(series) > 1 else [],
        marks=list(marks),
        strokes=list(strokes),
        slots=[
            Slot(str(_SLOT * number), str(_SLOT), _tooltip(series, row))
            for number, row in enumerate(rows)
        ],
        columns=[axis.name, *(line.name for line in series)],
        rows=rows,
    )


def _bar(colour: str, number: int, base: float, value: float, top: float) -> Mark:
    return Mark(
        colour,
        f"{_SLOT * number + _GAP / 2:g}",
        f"{HEIGHT * (1 - base / top):.2f}",
        f"{_SLOT - _GAP:g}",
        f"{HEIGHT * value / top:.2f}",
    )


def _stroke(series: Series, top: float) -> Stroke:
    path, points = [], []
    padded = [None, *series.values, None]
    for number, value in enumerate(series.values):
        if value is None:
            continue
        point = f"{_SLOT * (number + 0.5):g} {HEIGHT * (1 - value / top):.2f}"
        before, after = padded[number], padded[number + 2]
        path.append(("M" if before is None else "L") + point)
        if len(series.values) <= _MAX_POINTS or before is after is None:
            # A zero-length line with round caps remains a circle in a stretched SVG.
            points.append(f"M{point}h0")
    return Stroke(series.colour, "".join(path), "".join(points))


def _description(series: Sequence[Series], axis: Axis, cell: Callable[[float], str]) -> str:
    sentences = []
    for line in series:
        present = [
            (value, label) for value, label in zip(line.values, axis.long, strict=True) if value
        ]
        if not present:
            sentences.append(_("%(name)s: no data.") % {"name": line.name})
            continue
        value, label = max(present, key=lambda pair: pair[0])
        sentences.append(
            _("%(name)s: maximum %(value)s on %(label)s.")
            % {"name": line.name, "value": cell(value), "label": label}
        )
    return " ".join(sentences)


def _tooltip(series: Sequence[Series], row: Sequence[str]) -> str:
    values = [f"{line.name}: {value}" for line, value in zip(series, row[1:], strict=True)]
    return "\n".join([row[0], *values])
