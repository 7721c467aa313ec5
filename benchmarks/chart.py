"""The results as a picture: for each of four operations the stores in their order."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import escape

from .budgets import Measured
from .measure import Figures

_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif"
_ROW, _HEAD, _GAP = 19, 46, 24
_NAMES, _AXIS, _VALUES = 232, 122, 52
_PANEL = _NAMES + _AXIS + _VALUES
WIDTH = 2 * _PANEL + _GAP


@dataclass(frozen=True)
class _Theme:
    text: str
    faint: str
    line: str
    ours: str
    others: str
    raw: str


THEMES = {
    "light": _Theme("#1f2328", "#59636e", "#d8dee4", "#0b6e4f", "#7a8591", "#b26a00"),
    "dark": _Theme("#e6edf3", "#9aa4af", "#3a424c", "#3fc998", "#8b96a3", "#e3a94a"),
}


@dataclass(frozen=True)
class _Panel:
    title: str
    unit: str
    reading: Callable[[Figures], float | None]
    more_is_better: bool = False


def _milliseconds(operation: str) -> Callable[[Figures], float | None]:
    def read(figures: Figures) -> float | None:
        seconds = figures.seconds.get(operation)
        return None if seconds is None else seconds * 1_000

    return read


_PANELS = (
    _Panel("Append one message, 1,000 there", "ms", _milliseconds("append some")),
    _Panel("Restore 1,000 messages", "ms", _milliseconds("restore some")),
    _Panel("Read the latest 20 of 10,000", "ms", _milliseconds("latest")),
    _Panel("50 conversations at once", "messages/s", lambda f: f.rate, more_is_better=True),
)


def draw(measured: Measured, theme: str) -> str:
    """Draws the stores of one database."""
    colors = THEMES[theme]
    found = [_values(panel, measured) for panel in _PANELS]
    high = [_HEAD + _ROW * len(values) + 14 for values in found]
    tops = (0, 0, max(high[:2]) + _GAP, max(high[:2]) + _GAP)
    height = tops[2] + max(high[2:]) + 24
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" font-family="{_FONT}" font-size="12" role="img">',
        "<title>Times of each store, on logarithmic axes</title>",
    ]
    for number, (panel, values) in enumerate(zip(_PANELS, found, strict=True)):
        x = (number % 2) * (_PANEL + _GAP)
        lines += [f'<g transform="translate({x} {tops[number]})">']
        lines += _panel(panel, values, colors)
        lines += ["</g>"]
    lines += [*_legend(height - 8, colors), "</svg>"]
    return "\n".join(lines) + "\n"


def _values(panel: _Panel, measured: Measured) -> list[tuple[str, float]]:
    """Finds the figures, the best first."""
    values = {
        name: value
        for name, figures in measured.items()
        if (value := panel.reading(figures)) is not None and value > 0
    }
    return sorted(values.items(), key=lambda item: item[1], reverse=panel.more_is_better)


def _panel(panel: _Panel, values: list[tuple[str, float]], colors: _Theme) -> Iterator[str]:
    better = "more is better" if panel.more_is_better else "less is better"
    yield _text(0, 14, panel.title, colors.text, weight=600)
    yield _text(0, 31, f"{panel.unit}, logarithmic; {better}", colors.faint, size=11)
    if not values:
        return
    least = math.floor(math.log10(min(value for _, value in values)))
    most = max(math.ceil(math.log10(max(value for _, value in values))), least + 1)
    bottom = _HEAD + _ROW * len(values)

    def across(value: float) -> float:
        return _NAMES + _AXIS * (math.log10(value) - least) / (most - least)

    for power in range(least, most + 1):
        x = across(10**power)
        yield (
            f'<line x1="{x:.1f}" y1="{_HEAD - 4}" x2="{x:.1f}" y2="{bottom}" '
            f'stroke="{colors.line}" stroke-width="1"/>'
        )
        yield _text(x, bottom + 12, _mark(power), colors.faint, size=10, anchor="middle")
    for number, (name, value) in enumerate(values):
        y = _HEAD + _ROW * number + _ROW / 2
        ours = is_ours(name)
        color = colors.ours if ours else colors.raw if name.startswith("raw ") else colors.others
        ink, weight = (colors.text, 600) if ours else (colors.text, 400)
        yield _text(_NAMES - 10, y + 4, _short(name), ink, weight=weight, size=11, anchor="end")
        yield (
            f'<line x1="{_NAMES}" y1="{y:.1f}" x2="{across(value):.1f}" y2="{y:.1f}" '
            f'stroke="{color}" stroke-width="2" stroke-opacity="0.55"/>'
        )
        yield f'<circle cx="{across(value):.1f}" cy="{y:.1f}" r="4.5" fill="{color}"/>'
        yield _text(_PANEL, y + 4, _number(value), ink, weight=weight, size=11, anchor="end")


def is_ours(name: str) -> bool:
    """Tells whether a store is the app's."""
    return any(part in name for part in ("SessionStore", "DjangoS", "DjangoStorage"))


def _legend(y: float, colors: _Theme) -> Iterator[str]:
    x = 0
    for color, words in (
        (colors.ours, "this app"),
        (colors.others, "other stores"),
        (colors.raw, "the raw driver"),
    ):
        yield f'<circle cx="{x + 5}" cy="{y - 4}" r="4.5" fill="{color}"/>'
        yield _text(x + 16, y, words, colors.faint, size=11)
        x += 34 + 7 * len(words)


def _text(
    x: float,
    y: float,
    words: str,
    color: str,
    *,
    size: float = 12,
    weight: int = 400,
    anchor: str = "start",
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{color}" font-size="{size:g}" '
        f'font-weight="{weight}" text-anchor="{anchor}">{escape(words)}</text>'
    )


def _short(name: str) -> str:
    """Leaves out the database, of which there is one in each picture."""
    return name.removesuffix(", PostgreSQL").removesuffix(", SQLite")


def _mark(power: int) -> str:
    return f"{10 ** (power - 3)}k" if power >= 3 else f"{10.0**power:g}"


def _number(value: float) -> str:
    return f"{value:,.2f}" if value < 10 else f"{value:,.0f}"
