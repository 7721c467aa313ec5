"""The results as a Markdown page, and the place for them in the documentation."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Iterator, Sequence
from importlib import metadata
from pathlib import Path

from .budgets import Measured, Verdict
from .measure import BATCH, LATEST, Figures, Plan
from .messages import SIZE

BEGIN = "<!-- results: begin -->"
END = "<!-- results: end -->"


def page(
    plan: Plan,
    databases: Sequence[tuple[str, Measured, Sequence[Verdict]]],
    packages: Iterable[str],
    remarks: Iterable[str],
) -> str:
    """Writes the results down.

    Args:
        plan: How much was measured.
        databases: For each database its name with the version, the figures and the verdicts.
        packages: The distributions whose versions matter.
        remarks: What a reader must know about this run.

    Returns:
        Markdown.
    """
    lines = [
        f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}, "
        + ", ".join([*(name for name, _, _ in databases), *_versions(packages)])
        + ".",
        "",
        f"Messages of {SIZE} bytes of JSON; medians of {plan.rounds} alternating rounds; "
        "milliseconds, with the multiple of the raw driver in the same run behind it.",
    ]
    for remark in remarks:
        lines += ["", remark]
    for name, measured, verdicts in databases:
        lines += ["", f"### {name}", "", *_figures(plan, measured)]
        if verdicts:
            lines += ["", *_verdicts(verdicts)]
    return "\n".join(lines) + "\n"


def write(path: Path, text: str) -> None:
    """Puts the results into a page, between the two comments that mark their place.

    Args:
        path: The page.
        text: The results.

    Raises:
        ValueError: The page has no such place.
    """
    before, begin, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{path} has no lines {BEGIN} and {END}")
    path.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{after}", encoding="utf-8")


def _figures(plan: Plan, measured: Measured) -> Iterator[str]:
    columns = {
        "append 0": "append, 0 there",
        "append some": f"{plan.some:,} there",
        "append many": f"{plan.many:,} there",
        "batch": f"append {BATCH}",
        "restore 10": "restore 10",
        "restore some": f"restore {plan.some:,}",
        "restore many": f"restore {plan.many:,}",
        "latest": f"latest {LATEST} of {plan.many:,}",
    }
    raw = next(iter(measured.values()))
    sized = raw.size is not None
    heads = ["store", *columns.values(), f"{plan.concurrent} concurrent (messages/s)"]
    heads += ["bytes per message"] if sized else []
    yield _row(heads)
    yield _row(["---"] + ["---:"] * (len(heads) - 1))
    for name, figures in measured.items():
        cells = [name, *(_cell(figures, raw, operation) for operation in columns)]
        cells.append(_dash() if figures.rate is None else f"{figures.rate:,.0f}")
        if sized:
            cells.append(_size(figures, raw))
        yield _row(cells)


def _cell(figures: Figures, raw: Figures, operation: str) -> str:
    seconds = figures.seconds.get(operation)
    if seconds is None:
        return _dash()
    milliseconds = seconds * 1_000
    digits = 2 if milliseconds < 10 else 0
    ratio = seconds / raw.seconds[operation]
    return f"{milliseconds:,.{digits}f} ({_multiple(ratio)})"


def _size(figures: Figures, raw: Figures) -> str:
    if figures.size is None or not raw.size:
        return _dash()
    return f"{figures.size:,.0f} ({_multiple(figures.size / raw.size)})"


def _verdicts(verdicts: Sequence[Verdict]) -> Iterator[str]:
    yield _row(["budget", "store", "measured", "against", ""])
    yield _row(["---", "---", "---:", "---", "---"])
    for verdict in verdicts:
        budget = verdict.budget
        if budget.most < 1:
            allowed = f"at least {1 / budget.most:.0f}× as fast"
            measured = f"{1 / verdict.ratio:.1f}× as fast"
        else:
            allowed = f"at most {budget.most:g}×"
            measured = f"{verdict.ratio:.2f}×"
        yield _row(
            [
                f"{budget.subject}: {allowed}",
                verdict.ours,
                measured,
                budget.against,
                "pass" if verdict.kept else "**miss**",
            ]
        )


def _versions(packages: Iterable[str]) -> Iterator[str]:
    for name in sorted(set(packages)):
        yield f"{name} {metadata.version(name)}"


def _multiple(ratio: float) -> str:
    return f"{ratio:.1f}×" if ratio < 100 else f"{ratio:,.0f}×"


def _dash() -> str:
    return "–"


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
