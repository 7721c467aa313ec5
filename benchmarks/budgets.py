"""What the app is held to: ratios against another store, measured in the same run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from .measure import Figures

Measured = Mapping[str, Figures]
Reading = Callable[[Figures], float | None]

_OURS = ("SessionStore", "Strands DjangoSessionManager", "OpenAI DjangoSession")
_RAW = {"postgresql": "raw psycopg, text", "sqlite": "raw sqlite3, WAL"}
_SQLALCHEMY = {
    "postgresql": "SQLAlchemySession, PostgreSQL",
    "sqlite": "SQLAlchemySession, SQLite",
}
_FILES = "Strands FileSessionManager"


@dataclass(frozen=True)
class Budget:
    """One line of the budgets.

    Attributes:
        subject: What is held to it.
        ours: Which stores of the app are.
        reading: The figure; a larger one is a slower or bigger store.
        against: The name of the store it is compared with.
        most: The most that ours may be, as a multiple of the other's.
    """

    subject: str
    ours: tuple[str, ...]
    reading: Reading
    against: str
    most: float


@dataclass(frozen=True)
class Verdict:
    """A budget and what was measured.

    Attributes:
        budget: The budget.
        ours: The store of the app.
        ratio: Its figure as a multiple of the other's.
    """

    budget: Budget
    ours: str
    ratio: float

    @property
    def kept(self) -> bool:
        """Whether the budget was kept."""
        return self.ratio <= self.budget.most


def judge(alias: str, measured: Measured) -> Iterator[Verdict]:
    """Holds what was measured on a database to its budgets.

    Args:
        alias: ``sqlite`` or ``postgresql``.
        measured: The figures of each store.

    Yields:
        A verdict for each budget and store of which both figures are there.
    """
    for budget in _budgets(alias):
        for ours in budget.ours:
            if ours not in measured or budget.against not in measured:
                continue
            mine = budget.reading(measured[ours])
            other = budget.reading(measured[budget.against])
            if mine is not None and other is not None:
                yield Verdict(budget, ours, mine / other)


def _budgets(alias: str) -> Iterator[Budget]:
    raw, sqlalchemy = _RAW[alias], _SQLALCHEMY[alias]
    restored = ("SessionStore", "OpenAI DjangoSession")
    append = _seconds("append some")
    if alias == "postgresql":
        yield Budget("append one", _OURS, append, sqlalchemy, 1 / 4)
        yield Budget("append one", _OURS, append, raw, 1.7)
        yield Budget("bytes per message", ("SessionStore",), lambda f: f.size, raw, 2.1)
    else:
        yield Budget("append one", _OURS, append, sqlalchemy, 1 / 5)
        yield Budget("append one", _OURS, append, raw, 3)
    yield Budget("append 100 in one call", restored, _seconds("batch"), raw, 2)
    if alias == "postgresql":
        yield Budget("restore 1,000", restored, _seconds("restore some"), raw, 1.2)
        yield Budget("restore 10,000", restored, _seconds("restore many"), raw, 1.2)
        yield Budget("restore 1,000", restored, _seconds("restore some"), sqlalchemy, 1)
        yield Budget("restore 10,000", restored, _seconds("restore many"), sqlalchemy, 1)
    else:
        yield Budget("restore 1,000", _OURS, _seconds("restore some"), _FILES, 1 / 20)
    yield Budget("latest 20 of 10,000", restored, _seconds("latest"), raw, 3)
    if alias == "postgresql":
        yield Budget("latest 20 of 10,000", restored, _seconds("latest"), sqlalchemy, 1)
        yield Budget("50 concurrent conversations", _OURS, _per_message, sqlalchemy, 1 / 3)


def _seconds(operation: str) -> Reading:
    return lambda figures: figures.seconds.get(operation)


def _per_message(figures: Figures) -> float | None:
    return None if figures.rate is None else 1 / figures.rate
