"""Charts as server-side SVG, without scripts and inline styles.

The SVG contains no text, because it is stretched to the available width and would distort it.
Templates add the labels and a table of the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from django.forms.utils import flatatt
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from .formatting import format_compact, format_integer, html, join_html

HEIGHT = 100
"""The height of a chart in SVG units; the stylesheet sets the pixels."""

_SLOT = 10
_GAP = 2
# More points would hide the line. A point without neighbours is always drawn: it has no line.
_MAX_POINTS = 31
_AXIS_STEPS = (2, 4, 6, 8, 10)


# --- primitives -----------------------------------------------------------------------------------


def picture(
    width: int, height: int, content: Iterable[SafeString], attributes: Mapping[str, str]
) -> SafeString:
    """Return an SVG that the stylesheet stretches to the available width."""
    return html(
        '<svg viewBox="0 0 {} {}" preserveAspectRatio="none"{}>{}</svg>',
        str(width),
        str(height),
        flatatt({**attributes, "focusable": "false"}),
        join_html(content),
    )


def rect(css: str, x: float, y: float, width: float, height: float, tip: str = "") -> SafeString:
    """Return a rectangle with a tooltip; its numbers are the same in every language."""
    return html(
        '<rect class="{}" x="{}" y="{}" width="{}" height="{}">{}</rect>',
        css,
        *(f"{round(number, 2):g}" for number in (x, y, width, height)),
        html("<title>{}</title>", tip) if tip else "",
    )


def path(css: str, steps: str) -> SafeString:
    """Return a path whose line keeps its width in a stretched SVG."""
    return html(
        '<path class="{}" fill="none" vector-effect="non-scaling-stroke" d="{}"/>', css, steps
    )


# --- charts ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Series:
    """One colour's values."""

    name: str
    colour: str
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Chart:
    """The context of the template ``chart.html``, which says so where there is nothing to draw."""

    title: str
    is_empty: bool
    picture: SafeString
    ticks: list[str]
    labels: list[str]
    legend: list[Series]
    columns: list[str]
    rows: list[tuple[str, list[str]]]


@dataclass(frozen=True, slots=True)
class Axis:
    """The labels of the horizontal axis, and where each of them leads."""

    name: str
    labels: Sequence[str]
    links: Sequence[str]


def bar_chart(
    slug: str, title: str, axis: Axis, series: Sequence[Series], write: Callable[[float], str]
) -> Chart:
    """Return a stacked bar chart."""
    stacks = [sum(filter(None, values)) for values in zip(*(s.values for s in series), strict=True)]
    top = axis_maximum(max(stacks, default=0))
    bars = []
    for number in range(len(axis.labels)):
        base = 0.0
        for layer in series:
            value = layer.values[number] or 0
            if value > 0:
                base += value
                x, y = _SLOT * number + _GAP / 2, HEIGHT * (1 - base / top)
                height = HEIGHT * value / top
                bars.append(rect(f"usage-{layer.colour}", x, y, _SLOT - _GAP, height))
    return _chart(slug, title, axis, series, write, top, bars)


def line_chart(
    slug: str, title: str, axis: Axis, series: Sequence[Series], write: Callable[[float], str]
) -> Chart:
    """Return a line chart; a value of None makes a gap."""
    top = axis_maximum(max((value for line in series for value in line.values if value), default=0))
    lines = list(chain.from_iterable(_line(line, top) for line in series))
    return _chart(slug, title, axis, series, write, top, lines)


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
    content: Sequence[SafeString],
) -> Chart:
    cell = format_integer if write is format_compact else write
    rows = [
        [label, *(cell(value) if value is not None else "–" for value in values)]
        for label, *values in zip(axis.labels, *(line.values for line in series), strict=True)
    ]
    width = _SLOT * len(axis.labels)
    ids = {"title": f"usage-{slug}-title", "desc": f"usage-{slug}-desc"}
    described = _description(series, axis, cell)
    parts = [
        html('<title id="{}">{}</title>', ids["title"], title),
        html('<desc id="{}">{}</desc>', ids["desc"], described),
        path("usage-grid", "".join(f"M0 {y}H{width}" for y in (0, HEIGHT // 2, HEIGHT))),
        *content,
        html('<g aria-hidden="true">{}</g>', join_html(_slots(axis, series, rows))),
    ]
    attributes = {"role": "group", "class": "usage-picture"}
    attributes |= {"aria-labelledby": ids["title"], "aria-describedby": ids["desc"]}
    return Chart(
        title=title,
        is_empty=not any(value for line in series for value in line.values),
        picture=picture(width, HEIGHT, parts, attributes),
        ticks=[write(top), write(top / 2), write(0)],
        labels=[axis.labels[index] for index in (0, len(axis.labels) // 2, -1)],
        legend=list(series) if len(series) > 1 else [],
        columns=[axis.name, *(line.name for line in series)],
        rows=list(zip(axis.links, rows, strict=True)),
    )


def _slots(
    axis: Axis, series: Sequence[Series], rows: Sequence[Sequence[str]]
) -> Iterator[SafeString]:
    """Yield a link with a tooltip for each label; for keyboards, the table has the same links."""
    for number, (link, row) in enumerate(zip(axis.links, rows, strict=True)):
        slot = rect("usage-slot", _SLOT * number, 0, _SLOT, HEIGHT, _tooltip(series, row))
        yield html('<a href="{}" tabindex="-1">{}</a>', link, slot)


def _line(series: Series, top: float) -> list[SafeString]:
    line, points = "", ""
    padded = [None, *series.values, None]
    for number, value in enumerate(series.values):
        if value is None:
            continue
        point = f"{_SLOT * (number + 0.5):g} {HEIGHT * (1 - value / top):.2f}"
        before, after = padded[number], padded[number + 2]
        line += ("M" if before is None else "L") + point
        if len(series.values) <= _MAX_POINTS or before is after is None:
            # A zero-length line with round caps remains a circle in a stretched SVG.
            points += f"M{point}h0"
    css = f"usage-line-{series.colour}"
    return [path(f"usage-line {css}", line), path(f"usage-points {css}", points)]


def _description(series: Sequence[Series], axis: Axis, cell: Callable[[float], str]) -> str:
    sentences = []
    for line in series:
        present = [
            (value, label) for value, label in zip(line.values, axis.labels, strict=True) if value
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
