"""What the app is held to: ratios against another store, measured in the same run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .measure import Figures

Measured = Mapping[str, "Figures"]
Reading = Callable[["Figures"], float | None]

_BARE, _OPENAI = "SessionStore", "OpenAI DjangoSession"
_OURS = (_BARE, "Strands DjangoSessionManager", _OPENAI)
# A restore of the Strands adapter has built an agent, which no driver does.
_WITHOUT_AGENT = (_BARE, _OPENAI)
_RAW = {"postgresql": "raw psycopg, text", "sqlite": "raw sqlite3, WAL"}
_SQLALCHEMY = {
    "postgresql": "SQLAlchemySession, PostgreSQL",
    "sqlite": "SQLAlchemySession, SQLite",
}
_DJANGO_SESSIONS = "openai-django-sessions"
_AGENTIC = "agentic-django"
_ADK = "ADK DatabaseSessionService"
_LANGGRAPH = "LangGraph PostgresSaver"
_FILES = "Strands FileSessionManager"

ELSEWHERE = (
    ("statements of each operation", "asserted by the tests `tests/**/test_statements.py`"),
    (
        "growth to 1,000,000 and 10,000,000 messages: at most 1.2×",
        "measured by `python -m benchmarks.scale.growth`",
    ),
    (
        "a page of the API's session list: the same at page 1,000 as at page 1",
        "measured by `python -m benchmarks.rest`",
    ),
)
"""The budgets that this run does not measure, and what does."""


@dataclass(frozen=True)
class Budget:
    """One line of the budgets that compare stores."""

    subject: str
    ours: tuple[str, ...]
    reading: Reading  # a larger figure is a slower or bigger store
    against: tuple[str, ...]  # the best of them counts
    most: float  # as a multiple of the other store's figure


@dataclass(frozen=True)
class Verdict:
    """A budget and what was measured."""

    subject: str
    allowed: str
    ours: str
    measured: str
    against: str
    kept: bool | None


def judge(alias: str, measured: Measured) -> Iterator[Verdict]:
    """Holds what was measured on a database to its budgets."""
    for budget in _budgets(alias):
        allowed = (
            f"at least {1 / budget.most:g}× as fast"
            if budget.most < 1
            else f"at most {budget.most:g}×"
        )
        others = {
            name: reading
            for name in budget.against
            if name in measured and (reading := budget.reading(measured[name])) is not None
        }
        missing = [name for name in budget.against if name not in others]
        best = min(others, key=others.__getitem__, default="")
        for ours in budget.ours:
            mine = budget.reading(measured[ours]) if ours in measured else None
            if mine is None or not best:
                yield Verdict(budget.subject, allowed, ours, "–", ", ".join(budget.against), None)
                continue
            ratio = mine / others[best]
            told = f"{1 / ratio:.1f}× as fast" if budget.most < 1 else f"{ratio:.2f}×"
            against = f"{best}, the best of {len(others)}" if len(others) > 1 else best
            if missing:
                against += f" (not measured: {', '.join(missing)})"
            kept = ratio <= budget.most
            yield Verdict(budget.subject, allowed, ours, told, against, kept)


def _budgets(alias: str) -> Iterator[Budget]:
    raw, sqlalchemy = (_RAW[alias],), (_SQLALCHEMY[alias],)
    append = _seconds("append some")
    some, many = _seconds("restore some"), _seconds("restore many")
    latest = _seconds("latest")
    if alias == "postgresql":
        yield Budget("append one", _OURS, append, sqlalchemy, 1 / 4)
        yield Budget("append one", _OURS, append, (_DJANGO_SESSIONS,), 1 / 2.5)
        yield Budget("append one", _OURS, append, raw, 1.7)
        yield Budget("bytes per message", (_BARE,), lambda f: f.size, raw, 2.1)
    else:
        yield Budget("append one", _OURS, append, sqlalchemy, 1 / 5)
        yield Budget("append one", _OURS, append, raw, 3)
    yield Budget("append 100 in one call", _WITHOUT_AGENT, _seconds("batch"), raw, 2)
    if alias == "postgresql":
        for what, reading in {"restore 1,000": some, "restore 10,000": many}.items():
            yield Budget(what, _WITHOUT_AGENT, reading, raw, 1.2)
            yield Budget(what, _WITHOUT_AGENT, reading, sqlalchemy, 1)
        yield Budget("restore 1,000", _OURS, some, (_ADK, _AGENTIC), 1 / 5)
    else:
        yield Budget("restore 1,000", _OURS, some, (_FILES,), 1 / 20)
    yield Budget("latest 20 of 10,000", _WITHOUT_AGENT, latest, raw, 3)
    if alias == "postgresql":
        peers = (*sqlalchemy, _DJANGO_SESSIONS, _AGENTIC, _ADK, _LANGGRAPH)
        yield Budget("latest 20 of 10,000", _WITHOUT_AGENT, latest, peers, 1)
        yield Budget("50 concurrent conversations", _OURS, _per_message, sqlalchemy, 1 / 3)


def _seconds(operation: str) -> Reading:
    return lambda figures: figures.seconds.get(operation)


def _per_message(figures: Figures) -> float | None:
    return None if figures.rate is None else 1 / figures.rate
