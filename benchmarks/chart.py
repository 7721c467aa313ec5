"""The results as a picture: for each of four operations the stores in their order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl

from .budgets import Measured
from .measure import Figures

mpl.use("svg")
from matplotlib import pyplot
from matplotlib.patches import Patch

_PANELS = {
    "append some": "Append one message, 1,000 there (ms)",
    "restore some": "Restore 1,000 messages (ms)",
    "latest": "Read the latest 20 of 10,000 (ms)",
    "": "50 conversations at once (messages/s, more is better)",
}
# Text, lines, this app, other stores, the raw driver.
_COLORS = {
    "light": ("#1f2328", "#d8dee4", "#0b6e4f", "#7a8591", "#b26a00"),
    "dark": ("#e6edf3", "#3a424c", "#3fc998", "#8b96a3", "#e3a94a"),
}


def draw(measured: Measured, theme: str, file: Path) -> None:
    """Write the stores of one database as an SVG document on a transparent ground."""
    text, line, *_ = _COLORS[theme]
    style = {
        "text.color": text, "axes.labelcolor": text, "xtick.color": text, "ytick.color": text,
        "axes.edgecolor": line, "grid.color": line, "font.size": 8, "svg.fonttype": "none",
        "svg.hashsalt": "benchmarks",
    }  # fmt: skip
    with pyplot.rc_context(style):
        figure, axes = pyplot.subplots(2, 2, figsize=(11, 7), layout="constrained")
        for panel, (operation, title) in zip(axes.flat, _PANELS.items(), strict=True):
            _panel(panel, operation, title, measured, theme)
        names = ("this app", "other stores", "the raw driver")
        colors = zip(_COLORS[theme][2:], names, strict=True)
        patches = [Patch(color=color, label=name) for color, name in colors]
        figure.legend(handles=patches, loc="outside lower left", ncols=3, frameon=False)
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
        pyplot.close(figure)


def _panel(panel: Any, operation: str, title: str, measured: Measured, theme: str) -> None:
    values = {name: value for name, f in measured.items() if (value := _value(f, operation))}
    # The best on top.
    names = sorted(values, key=values.__getitem__, reverse=bool(operation))
    colors = [_color(name, theme) for name in names]
    figures = [values[name] for name in names]
    # Without the database, of which there is one in each picture.
    labels = [name.removesuffix(", PostgreSQL").removesuffix(", SQLite") for name in names]
    bars = panel.barh(labels, figures, color=colors, height=0.5, log=True)
    panel.bar_label(bars, [f"{n:,.2f}" if n < 10 else f"{n:,.0f}" for n in figures], padding=3)
    panel.margins(x=0.15)
    panel.grid(axis="x")
    panel.set_axisbelow(True)
    panel.spines[["top", "right", "left"]].set_visible(False)
    panel.set_title(title, loc="left", fontweight="bold")


def _value(figures: Figures, operation: str) -> float | None:
    if not operation:
        return figures.rate
    seconds = figures.seconds.get(operation)
    return seconds and seconds * 1_000


def _color(name: str, theme: str) -> str:
    *_, ours, others, raw = _COLORS[theme]
    if any(part in name for part in ("SessionStore", "DjangoS", "DjangoStorage")):
        return ours
    return raw if name.startswith("raw ") else others
