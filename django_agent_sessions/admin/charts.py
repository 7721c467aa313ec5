"""Charts as SVG that the server makes: no script, no inline style, their data beside them.

Only what has no text is drawn: a picture is stretched to the width it is given, and letters in it
would be stretched too. The labels are HTML around it (``agent_sessions/admin/chart.html``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.utils.formats import number_format
from django.utils.translation import gettext as _

HEIGHT = 100
"""The height of every picture in its own units; the stylesheet says how many pixels that is."""

_SLOT = 10
_GAP = 2
# More would hide the line; one that stands alone is always shown, as it has no line.
_MOST_POINTS = 31
_NICE = (2, 4, 6, 8, 10)


@dataclass(frozen=True, slots=True)
class Series:
    """What one colour shows."""

    name: str
    colour: str
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Mark:
    """A rectangle; all in text, because templates would write numbers as the language does."""

    colour: str
    x: str
    y: str
    width: str
    height: str


@dataclass(frozen=True, slots=True)
class Stroke:
    """A line, and the points it goes through."""

    colour: str
    path: str
    points: str


@dataclass(frozen=True, slots=True)
class Slot:
    """The strip of one label: what it tells when it is pointed at."""

    x: str
    width: str
    tip: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart, ready for its template."""

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
    """What is below a chart."""

    name: str
    short: Sequence[str]
    long: Sequence[str]


def bars(
    slug: str, title: str, axis: Axis, series: Sequence[Series], write: Callable[[float], str]
) -> Chart:
    """Draws one bar for each label, the series one upon the other."""
    stacks = [sum(filter(None, values)) for values in zip(*(s.values for s in series), strict=True)]
    top = nice(max(stacks, default=0))
    marks = []
    for number in range(len(axis.short)):
        base = 0.0
        for one in series:
            value = one.values[number] or 0
            if value > 0:
                base += value
                marks.append(_bar(one.colour, number, base, value, top))
    return _chart(slug, title, axis, series, write, top, marks=marks)


def lines(
    slug: str, title: str, axis: Axis, series: Sequence[Series], write: Callable[[float], str]
) -> Chart:
    """Draws one line for each series, with gaps where there is nothing."""
    top = nice(max((value for one in series for value in one.values if value), default=0))
    strokes = [_stroke(one, top) for one in series]
    return _chart(slug, title, axis, series, write, top, strokes=strokes)


def nice(value: float) -> float:
    """Finds the end of a scale."""
    power = 1
    while value > 10 * power:
        power *= 10
    return float(next(step for step in _NICE if step * power >= value) * power)


def compact(value: float) -> str:
    """Writes a number shortly."""
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return _rounded(value / size, 100) + letter
    return _rounded(value)


def duration(milliseconds: float | None) -> str:
    """Writes a time that somebody waited."""
    if milliseconds is None:
        return "–"
    if milliseconds < 1000:
        return _("%s ms") % number_format(round(milliseconds), 0)
    if milliseconds < 120_000:
        return _("%s s") % _rounded(milliseconds / 1000)
    return _("%s min") % _rounded(milliseconds / 60_000)


def whole(value: float) -> str:
    """Writes a number in full."""
    return str(number_format(round(value), 0, force_grouping=True))


def share(value: float, largest: float) -> str:
    """Tells how long a bar in a table is."""
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
    cell = duration if write is duration else whole
    rows = [
        [label, *(cell(value) if value is not None else "–" for value in values)]
        for label, *values in zip(axis.long, *(one.values for one in series), strict=True)
    ]
    return Chart(
        slug=slug,
        title=title,
        description=_description(series, axis, cell),
        width=_SLOT * len(axis.short),
        ticks=[write(top), write(top / 2), write(0)],
        labels=[axis.short[place] for place in (0, len(axis.short) // 2, -1)],
        legend=list(series) if len(series) > 1 else [],
        marks=list(marks),
        strokes=list(strokes),
        slots=[
            Slot(str(_SLOT * number), str(_SLOT), _tip(series, row))
            for number, row in enumerate(rows)
        ],
        columns=[axis.name, *(one.name for one in series)],
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
    around = [None, *series.values, None]
    for number, value in enumerate(series.values):
        if value is None:
            continue
        place = f"{_SLOT * (number + 0.5):g} {HEIGHT * (1 - value / top):.2f}"
        before, after = around[number], around[number + 2]
        path.append(("M" if before is None else "L") + place)
        if len(series.values) <= _MOST_POINTS or before is after is None:
            # A line without length and with round ends stays a circle in a stretched picture.
            points.append(f"M{place}h0")
    return Stroke(series.colour, "".join(path), "".join(points))


def _description(series: Sequence[Series], axis: Axis, cell: Callable[[float], str]) -> str:
    sentences = []
    for one in series:
        present = [
            (value, label) for value, label in zip(one.values, axis.long, strict=True) if value
        ]
        if not present:
            sentences.append(_("%(name)s: nothing.") % {"name": one.name})
            continue
        value, label = max(present, key=lambda pair: pair[0])
        sentences.append(
            _("%(name)s: at most %(value)s, on %(label)s.")
            % {"name": one.name, "value": cell(value), "label": label}
        )
    return " ".join(sentences)


def _tip(series: Sequence[Series], row: Sequence[str]) -> str:
    values = [f"{one.name}: {value}" for one, value in zip(series, row[1:], strict=True)]
    return "\n".join([row[0], *values])


def _rounded(value: float, whole_from: float = 10) -> str:
    digits = 1 if value < whole_from and round(value, 1) != round(value) else 0
    return str(number_format(round(value, digits), digits))
