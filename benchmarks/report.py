"""The results as a Markdown page, and the place for them in the documentation."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from . import chart
from .budgets import ELSEWHERE, Measured, Verdict
from .measure import BATCH, LATEST, LISTED, PATIENCE, Figures, Plan
from .messages import SIZE

BEGIN = "<!-- results: begin -->"
END = "<!-- results: end -->"


@dataclass(frozen=True)
class Database:
    """What was measured on a database."""

    name: str
    measured: Measured
    remarks: Sequence[str]

    @property
    def picture(self) -> str:
        """The beginning of the names of its charts."""
        return f"bench-{self.name.split()[0].lower()}"


def page(
    plan: Plan,
    databases: Sequence[Database],
    verdicts: Sequence[Verdict],
    packages: Iterable[str],
    remarks: Iterable[str],
) -> str:
    """Writes the results down."""
    lines = [
        ", ".join([*_machine(), *(database.name for database in databases), *_versions(packages)])
        + ".",
        "",
        f"Messages of {SIZE} bytes of JSON; medians of {plan.rounds} alternating rounds.",
    ]
    for remark in remarks:
        lines += ["", remark]
    if verdicts:
        lines += ["", "### Budgets", "", *_summary(verdicts), "", *_verdicts(verdicts)]
    for database in databases:
        lines += ["", f"### {database.name}", "", *_pictures(database)]
        lines += ["", *_times(plan, database.measured), "", *_sizes(plan, database.measured)]
        for remark in database.remarks:
            lines += ["", remark]
    return "\n".join(lines) + "\n"


def write(path: Path, text: str, databases: Sequence[Database] = ()) -> None:
    """Puts the results into a page, between the two comments that mark their place."""
    before, begin, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{path} has no lines {BEGIN} and {END}")
    path.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{after}", encoding="utf-8")
    for database in databases:
        for theme in chart.THEMES:
            picture = path.parent / "images" / f"{database.picture}-{theme}.svg"
            picture.parent.mkdir(exist_ok=True)
            picture.write_text(chart.draw(database.measured, theme), encoding="utf-8")


def _machine() -> Iterator[str]:
    yield f"{os.cpu_count()} cores"
    try:
        found = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.M)
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        found, memory = None, 0
    if found:
        yield found[1].strip()
    if memory:
        yield f"{memory / 2**30:.0f} GiB"
    yield f"{platform.system()} {platform.release().split('-')[0]}"
    yield f"Python {platform.python_version()}"


def _pictures(database: Database) -> Iterator[str]:
    subject = f"Times of each store on {database.name}, on logarithmic axes"
    for theme in chart.THEMES:
        yield f"```{{image}} images/{database.picture}-{theme}.svg"
        yield f":alt: {subject}"
        yield f":class: only-{theme}"
        yield "```"


def _times(plan: Plan, measured: Measured) -> Iterator[str]:
    yield "Milliseconds, with the multiple of the raw driver in the same run behind it. Writing:"
    yield ""
    writing = {
        "append 0": "append, 0 there",
        "append some": f"{plan.some:,} there",
        "append many": f"{plan.many:,} there",
        "batch": f"append {BATCH}",
        "delete": f"delete {plan.many:,}",
    }
    rates = {
        name: _dash() if figures.rate is None else f"{figures.rate:,.0f}"
        for name, figures in measured.items()
    }
    yield from _table(writing, measured, f"{plan.concurrent} at once (messages/s)", rates)
    yield ""
    yield "Reading:"
    yield ""
    reading = {
        "restore 10": "restore 10",
        "restore some": f"restore {plan.some:,}",
        "restore many": f"restore {plan.many:,}",
        "latest": f"latest {LATEST} of {plan.many:,}",
        "list": f"list {LISTED} of {plan.sessions:,} sessions",
    }
    yield from _table(reading, measured)
    if any(figures.fewer for figures in measured.values()):
        yield ""
        yield (
            f"\\* Repeated less often than the others: {PATIENCE:g} seconds in all were enough "
            "for it."
        )


def _table(
    columns: Mapping[str, str],
    measured: Measured,
    last: str = "",
    lasts: Mapping[str, str] | None = None,
) -> Iterator[str]:
    raw = next(iter(measured.values()))
    heads = ["store", *columns.values(), *([last] if last else [])]
    yield _row(heads)
    yield _row(["---"] + ["---:"] * (len(heads) - 1))
    for name, figures in measured.items():
        cells = [name, *(_cell(figures, raw, operation) for operation in columns)]
        yield _row([*cells, *([lasts[name]] if lasts else [])])


def _sizes(plan: Plan, measured: Measured) -> Iterator[str]:
    raw = next(iter(measured.values()))
    yield _row(
        [
            "store",
            "bytes stored per message, indexes included",
            f"MB written over {plan.turns} turns",
            f"peak memory of restoring {plan.many:,} (MB)",
        ]
    )
    yield _row(["---"] + ["---:"] * 3)
    for name, figures in measured.items():
        yield _row(
            [
                name,
                _compared(figures.size, raw.size, 1, 0),
                _compared(figures.written, raw.written, 1e6, 1),
                _compared(figures.memory, raw.memory, 1e6, 0),
            ]
        )


def _cell(figures: Figures, raw: Figures, operation: str) -> str:
    seconds = figures.seconds.get(operation)
    if seconds is None:
        return _dash()
    milliseconds = seconds * 1_000
    digits = 2 if milliseconds < 10 else 0
    mark = "\\*" if operation in figures.fewer else ""
    ratio = seconds / raw.seconds[operation]
    return f"{milliseconds:,.{digits}f}{mark} ({_multiple(ratio)})"


def _compared(figure: float | None, raw: float | None, unit: float, digits: int) -> str:
    if figure is None:
        return _dash()
    behind = f" ({_multiple(figure / raw)})" if raw else ""
    return f"{figure / unit:,.{digits}f}{behind}"


def _summary(verdicts: Sequence[Verdict]) -> Iterator[str]:
    judged = [verdict for verdict in verdicts if verdict.kept is not None]
    kept = sum(verdict.kept is True for verdict in judged)
    missing = len(verdicts) - len(judged)
    yield (
        f"{kept} of {len(judged)} passed"
        + (f"; {missing} could not be judged" if missing else "")
        + "."
    )


def _verdicts(verdicts: Sequence[Verdict]) -> Iterator[str]:
    yield _row(["budget", "of", "measured", "against", ""])
    yield _row(["---", "---", "---:", "---", "---"])
    words = {True: "pass", False: "**miss**", None: "not measured"}
    for verdict in verdicts:
        yield _row(
            [
                f"{verdict.subject}: {verdict.allowed}",
                verdict.ours,
                verdict.measured,
                verdict.against,
                words[verdict.kept],
            ]
        )
    for subject, where in ELSEWHERE:
        yield _row([subject, "all", _dash(), _dash(), where])


def _versions(packages: Iterable[str]) -> Iterator[str]:
    for name in sorted(set(packages)):
        yield f"{name} {metadata.version(name)}"


def _multiple(ratio: float) -> str:
    return f"{ratio:.1f}×" if ratio < 100 else f"{ratio:,.0f}×"


def _dash() -> str:
    return "–"


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
