"""The results as a Markdown page, and the place for them in the documentation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from .budgets import ELSEWHERE, Measured, Verdict
from .measure import BATCH, LATEST, LISTED, PATIENCE, Figures, Plan
from .messages import SIZE
from .tables import DASH, machine, replace_between, table, versions

BEGIN = "<!-- results: begin -->"
END = "<!-- results: end -->"
THEMES = ("light", "dark")
_SHORT = {
    "SessionStore": "store",
    "Strands DjangoSessionManager": "Strands",
    "OpenAI DjangoSession": "OpenAI",
    "raw psycopg, in a thread": "raw driver",
    "raw sqlite3, in a thread": "raw driver",
    "SQLAlchemySession, PostgreSQL": "SQLAlchemySession",
    "SQLAlchemySession, SQLite": "SQLAlchemySession",
}


@dataclass(frozen=True)
class Database:
    """What was measured on a database: the figures of each store, the raw driver first."""

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
    """Return the results as Markdown."""
    names = [database.name for database in databases]
    parts = [
        ", ".join([machine(), *names, versions(packages)]) + ".",
        f"Messages of {SIZE} bytes of JSON; medians of {plan.rounds} alternating rounds.",
        *remarks,
    ]
    if verdicts:
        parts += ["### Budgets", _summary(verdicts), _verdicts(verdicts)]
    for database in databases:
        parts += [f"### {database.name}", _pictures(database)]
        parts += _times(plan, database.measured)
        if any(figures.size for figures in database.measured.values()):
            parts.append(_sizes(plan, database.measured))
        parts += database.remarks
    return "\n\n".join(parts) + "\n"


def write(path: Path, text: str, databases: Sequence[Database] = ()) -> None:
    """Put the results into a page between its marks, and charts into ``docs/images``."""
    replace_between(path, BEGIN, END, text)
    for database in databases:
        # Matplotlib is in the environment of `make bench` only.
        from . import chart

        for theme in THEMES:
            picture = path.parent.parent / "images" / f"{database.picture}-{theme}.svg"
            picture.parent.mkdir(exist_ok=True)
            chart.draw(database.measured, theme, picture)


def _pictures(database: Database) -> str:
    subject = f"Times of each store on {database.name}, on logarithmic axes"
    return "\n".join(
        f"```{{image}} ../images/{database.picture}-{theme}.svg\n"
        f":alt: {subject}\n:class: only-{theme}\n```"
        for theme in THEMES
    )


def _times(plan: Plan, measured: Measured) -> Iterator[str]:
    yield "Writing, in milliseconds:"
    writing = {
        "append 0": "append, 0 there",
        "append some": f"{plan.some:,} there",
        "append many": f"{plan.many:,} there",
        "batch": f"append {BATCH}",
        "delete": f"delete {plan.many:,}",
    }
    rates = [(f.rate and f"{f.rate:,.0f}") or DASH for f in measured.values()]
    yield _comparison(writing, measured, {f"{plan.concurrent} at once (messages/s)": rates})
    yield "Reading, in milliseconds:"
    reading = {
        "restore 10": "restore 10",
        "restore some": f"restore {plan.some:,}",
        "restore many": f"restore {plan.many:,}",
        "latest": f"latest {LATEST} of {plan.many:,}",
        "list": f"list {LISTED} of {plan.sessions:,} sessions",
    }
    yield _comparison(reading, measured, {})
    if any(figures.fewer for figures in measured.values()):
        yield (
            "\\* Repeated fewer times than the others, because an operation that has taken "
            f"{PATIENCE:g} seconds in all is not repeated."
        )


def _comparison(
    columns: Mapping[str, str], measured: Measured, more: Mapping[str, Sequence[str]]
) -> str:
    found = {name for figures in measured.values() for name in figures.seconds}
    columns = {name: title for name, title in columns.items() if name in found}
    rows = [
        [name, *(_cell(figures, operation) for operation in columns)]
        for name, figures in measured.items()
    ]
    for cells in more.values():
        rows = [[*row, cell] for row, cell in zip(rows, cells, strict=True)]
    return table(["store", *columns.values(), *more], rows)


def _sizes(plan: Plan, measured: Measured) -> str:
    head = ["store", "bytes stored per message, indexes included"]
    head += [f"MB written over {plan.turns} turns"]
    head += [f"peak memory of restoring {plan.many:,} (MB)"]
    rows = [
        [
            name,
            _figure(figures.size, 1, 0),
            _figure(figures.written, 1e6, 1),
            _figure(figures.memory, 1e6, 0),
        ]
        for name, figures in measured.items()
    ]
    return table(head, rows)


def _cell(figures: Figures, operation: str) -> str:
    seconds = figures.seconds.get(operation)
    if seconds is None:
        return DASH
    milliseconds = seconds * 1_000
    digits = 2 if milliseconds < 10 else 0
    mark = "\\*" if operation in figures.fewer else ""
    return f"{milliseconds:,.{digits}f}{mark}"


def _figure(figure: float | None, unit: float, digits: int) -> str:
    return DASH if figure is None else f"{figure / unit:,.{digits}f}"


def _summary(verdicts: Sequence[Verdict]) -> str:
    judged = [verdict for verdict in verdicts if verdict.kept is not None]
    kept = sum(verdict.kept is True for verdict in judged)
    missing = len(verdicts) - len(judged)
    more = f"; {missing} could not be judged" if missing else ""
    return f"{kept} of {len(judged)} passed{more}."


def _verdicts(verdicts: Sequence[Verdict]) -> str:
    """Return a row for each budget, with the figures of all stores of this package."""
    rows = []
    for (subject, allowed, against), found in groupby(
        verdicts, lambda v: (v.subject, v.allowed, v.against)
    ):
        limit = allowed.replace("at most", "≤").replace("at least", "≥")
        rows.append([f"{subject}: {limit}", _short(against), ", ".join(map(_judged, found))])
    elsewhere = "\n".join(f"- {subject}: {where}" for subject, where in ELSEWHERE)
    judged = table(["budget", "against", "measured"], rows, "lll")
    return f"{judged}\n\nOther budgets:\n\n{elsewhere}"


def _judged(verdict: Verdict) -> str:
    measured = verdict.measured.removesuffix(" as fast")
    words = {True: "", False: " (**miss**)", None: " (not measured)"}
    return f"{_short(verdict.ours)} {measured}{words[verdict.kept]}"


def _short(store: str) -> str:
    name, comma, rest = store.partition(", the fastest of ")
    return f"{_SHORT.get(name, name)}{comma}{rest}"
