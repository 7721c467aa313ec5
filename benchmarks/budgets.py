"""What the app is held to: ratios against another store, measured in the same run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .measure import Figures

Measured = Mapping[str, "Figures"]
Reading = Callable[["Figures"], float | None]

_BARE, _STRANDS, _OPENAI = "SessionStore", "Strands DjangoSessionManager", "OpenAI DjangoSession"
_OURS = (_BARE, _STRANDS, _OPENAI)
# A restore of the Strands adapter has built an agent, which no driver does.
_WITHOUT_AGENT = (_BARE, _OPENAI)
_RAW = {"postgresql": "raw psycopg, text", "sqlite": "raw sqlite3, WAL"}
_SIZE = {"postgresql": 2.2, "sqlite": 2.4}
# A running event loop must not be blocked, so that drivers are called in a thread.
_IN_THREAD = {"postgresql": "raw psycopg, in a thread", "sqlite": "raw sqlite3, in a thread"}
_SQLALCHEMY = {
    "postgresql": "SQLAlchemySession, PostgreSQL",
    "sqlite": "SQLAlchemySession, SQLite",
}
_SQLITE = "SQLiteSession"
_REDIS = "RedisSession"
_DJANGO_SESSIONS = "openai-django-sessions"
_AGENTIC = "agentic-django"
_ADK = "ADK DatabaseSessionService"
_LANGGRAPH = "LangGraph PostgresSaver"
_FILES = "Strands FileSessionManager"
# The peers that keep a row for each message.
_ROWS = {
    "postgresql": (_SQLALCHEMY["postgresql"], _DJANGO_SESSIONS, _AGENTIC, _ADK),
    "sqlite": (_SQLALCHEMY["sqlite"], _SQLITE, "AdvancedSQLiteSession"),
}

ELSEWHERE = (
    ("statements", "`tests/**/test_statements.py`"),
    ("growth to 10,000,000 messages, at most 1.2×", "`python -m benchmarks.scale.growth`"),
    ("page 1,000 of the API's list, like page 1", "`python -m benchmarks.rest`"),
    ("streams of events", "`make bench-events`"),
    ("pages", "`make bench-pages`"),
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
    other: Reading | None = None  # what is read of the other store, if not the same
    label: str = ""  # what that is


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
        other = budget.other or budget.reading
        others = {
            name: reading
            for name in budget.against
            if name in measured and (reading := other(measured[name])) is not None
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
            against = f"{best}, the fastest of {len(others)}" if len(others) > 1 else best
            against = budget.label or against
            if missing:
                against += f" (not measured: {', '.join(missing)})"
            kept = ratio <= budget.most
            yield Verdict(budget.subject, allowed, ours, told, against, kept)


def _budgets(alias: str) -> Iterator[Budget]:
    yield from _writing(alias)
    yield from _reading(alias)
    yield Budget("bytes per message", (_BARE,), lambda f: f.size, (_RAW[alias],), _SIZE[alias])


def _writing(alias: str) -> Iterator[Budget]:
    in_thread, sqlalchemy = (_IN_THREAD[alias],), (_SQLALCHEMY[alias],)
    append, batch, delete = _seconds("append some"), _seconds("batch"), _seconds("delete")
    at_once = "50 concurrent conversations"
    if alias == "postgresql":
        yield Budget("append one", _OURS, append, sqlalchemy, 1 / 2.5)
        yield Budget("append one", _OURS, append, (_DJANGO_SESSIONS,), 1 / 1.75)
        yield Budget("append one", _OURS, append, (_REDIS,), 1.75)
    else:
        yield Budget("append one", _OURS, append, sqlalchemy, 1 / 3.5)
        yield Budget("append one", _WITHOUT_AGENT, append, (_SQLITE,), 2.25)
    most = 2.5 if alias == "postgresql" else 4
    yield Budget("append one", _OURS, append, in_thread, most)
    for name in _OURS:
        most, own = 2 if name == _BARE else 3, "its own append of one"
        yield Budget("first message", (name,), _seconds("append 0"), (name,), most, append, own)
    if alias == "postgresql":
        yield Budget("append 100 in one call", _WITHOUT_AGENT, batch, in_thread, 2)
        yield Budget(at_once, _OURS, _per_message, sqlalchemy, 1 / 6)
        yield Budget(at_once, _OURS, _per_message, (_REDIS,), 1 / 1.5)
    else:
        yield Budget("append 100 in one call", _WITHOUT_AGENT, batch, (_SQLITE,), 2.5)
        yield Budget(at_once, _OURS, _per_message, (_SQLITE,), 1 / 1.1)
        yield Budget("deletion of 10,000", _OURS, delete, (_SQLITE,), 2.75)
    yield Budget("deletion of 10,000", _OURS, delete, sqlalchemy, 3)


def _reading(alias: str) -> Iterator[Budget]:
    in_thread, peers = (_IN_THREAD[alias],), _ROWS[alias]
    some, latest = _seconds("restore some"), _seconds("latest")
    for what, reading in {
        "restore 1,000": some,
        "restore 10,000": _seconds("restore many"),
    }.items():
        yield Budget(what, (_BARE,), reading, in_thread, 1.2)
        yield Budget(what, (_OPENAI,), reading, in_thread, 1.75)
        # Of the row stores on SQLite, `SQLiteSession` keeps no positions.
        yield Budget(what, _WITHOUT_AGENT, reading, peers, 1 if alias == "postgresql" else 1.35)
    yield Budget("restore 1,000", (_STRANDS,), some, (_BARE,), 3.5)
    if alias == "postgresql":
        yield Budget("restore 1,000", _OURS, some, (_ADK, _AGENTIC), 1 / 4)
        yield Budget("restore 10", (_STRANDS,), _seconds("restore 10"), (_LANGGRAPH,), 3.25)
        peers = (*peers, _LANGGRAPH)
    else:
        yield Budget("restore 1,000", _OURS, some, (_FILES,), 1 / 17.5)
    yield Budget("latest 20 of 10,000", _WITHOUT_AGENT, latest, in_thread, 2)
    most = 1 if alias == "postgresql" else 1.35
    yield Budget("latest 20 of 10,000", _WITHOUT_AGENT, latest, peers, most)
    most = 5.5 if alias == "postgresql" else 8.5
    yield Budget("list 50 of 100,000 sessions", (_BARE,), _seconds("list"), in_thread, most)


def _seconds(operation: str) -> Reading:
    return lambda figures: figures.seconds.get(operation)


def _per_message(figures: Figures) -> float | None:
    return None if figures.rate is None else 1 / figures.rate
