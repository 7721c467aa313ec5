"""The figures of a run, in Markdown, each with its bound where it has one."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.tables import cores, machine, table, verdict, versions

from . import settings
from .plan import Plan
from .servers import ASGI
from .watching import Sample

JUDGED_FROM = 5
"""Minutes from which a growth is judged: before that a server is still warming up."""

GROWTH = 0.05
"""By how much of itself the memory may grow in the second half."""

TIMES = ("first", "complete", "lists", "transcripts")
_MB = 1_000_000


@dataclass(frozen=True)
class Found:
    """What a run left to be told."""

    plan: Plan
    met: Mapping[str, Any]
    """What the people's process wrote down."""

    turns: Sequence[dict[str, Any]]
    lags: Sequence[tuple[float, float]]
    """Seconds by which loops were late, and that their threads computed meanwhile."""

    samples: Sequence[Sample]
    """While people talked."""

    before: Sample
    after: Sample
    """When nobody had talked yet, and when nobody did any more."""

    conversations: int
    messages: int
    log: Sequence[str]
    faults: Sequence[str]
    integrity: str
    database: str
    cache: str

    @property
    def seconds(self) -> float:
        """From the first login to the last answer."""
        return float(self.met["seconds"])

    @property
    def times(self) -> Mapping[str, Sequence[float]]:
        """Seconds until the first word and the end of answers, of lists and of transcripts."""
        return {name: self.met["times"].get(name, []) for name in TIMES}


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    what: str
    value: str
    bound: str = ""
    passed: bool | None = None


def rows(found: Found) -> Iterator[Row]:
    """Makes the lines."""
    plan, times = found.plan, found.times
    yield _bounded("errors that clients met", len(found.met["errors"]), 0)
    yield _bounded("lines in the server's log", len(found.log), 0)
    yield _bounded("conversations that are not as acknowledged", len(found.faults), 0)
    yield Row("`agent_sessions_check`", found.integrity, "clean", found.integrity == "clean")
    turns = len(times["complete"])
    yield Row("turns answered", f"{turns:,}", "more than 0", turns > 0)
    yield Row("turns per second", f"{turns / found.seconds:.1f}")
    yield Row("conversations, messages stored", f"{found.conversations:,}, {found.messages:,}")
    mean = sum(times["complete"]) / found.seconds
    most = found.met["most_answering"]
    yield Row("answers on their way at once", f"mean {mean:.0f}, max {most}")
    yield Row("until the first word", _spread(times["first"]))
    yield Row("until the end of the answer", _spread(times["complete"]))
    yield Row("a list of sessions; a transcript", _pair(times["lists"], times["transcripts"]))
    yield from _persistence(found)
    if plan.server == ASGI:
        late, computed = zip(*found.lags, strict=True) if found.lags else ((), ())
        yield Row("event loop late by", _spread(late, last=True))
        yield Row("its thread computed in such 20 ms", _spread(computed, last=True))
    yield from _connections(found)
    yield from _held(found)
    cpu = found.samples[-1].cpu - found.samples[0].cpu if found.samples else 0
    computed = found.met["computed"]
    yield Row(
        "processor time, server and client",
        f"{cpu / found.seconds:.2f} and {computed / found.seconds:.2f} of {cores()} cores",
    )


def page(found: Found) -> str:
    """Writes the table, under what it was measured with."""
    plan = found.plan
    packages = ["django", "strands-agents", "openai-agents", "psycopg"]
    packages += ["uvicorn"] if plan.server == ASGI else ["gunicorn"]
    lines = [[row.what, row.value, row.bound, verdict(row.passed)] for row in rows(found)]
    return (
        f"`{plan.command()}`\n\n{machine()}, {found.database}, {versions(packages)}; "
        f"cache: {found.cache}; {plan.layout()}.\n\n"
        f"{table(['what', 'value', 'bound', ''], lines, 'llll')}\n"
    )


def _persistence(found: Found) -> Iterator[Row]:
    for agent in ("Strands", "OpenAI"):
        mine = [turn for turn in found.turns if turn["agent"] == agent]
        if mine:
            calls = statistics.mean(turn["calls"] for turn in mine)
            statements = statistics.mean(turn["statements"] for turn in mine)
            most = max(turn["statements"] for turn in mine)
            yield Row(
                f"persistence per turn, {agent}",
                f"{_spread([turn['waited'] for turn in mine])}",
            )
            yield Row(
                f"calls and statements of it, {agent}",
                f"mean {calls:.1f} and {statements:.1f}; max {most} statements",
            )
    yield Row("persistence per turn", _spread([turn["waited"] for turn in found.turns]))
    inside = _spread([turn["inside"] for turn in found.turns])
    yield Row("of that within the database work", inside)
    count = len(found.turns)
    answered = len(found.times["complete"])
    yield Row("turns timed", f"{count:,}", f"{answered:,}", count == answered)


def _connections(found: Found) -> Iterator[Row]:
    plan = found.plan
    if plan.database != "postgresql":
        return
    own = max((each.connections.get(settings.OWN, 0) for each in found.samples), default=0)
    every = [each.connected for each in found.samples] or [0]
    yield _bounded("connections of the app's own, max", own, plan.own_connections())
    yield _bounded("connections of the server, max", max(every), plan.all_connections())
    busy = max((each.busy for each in found.samples), default=0)
    yield Row("connections, median; busy, max", f"{statistics.median(every):.0f}; {busy}")
    if plan.conn_max_age == 0 and not plan.pool:
        yield _bounded("connections when nobody talks any more", found.after.connected, 0)


def _held(found: Found) -> Iterator[Row]:
    plan = found.plan
    half = found.samples[len(found.samples) // 2 :]
    points = [(each.at, each.rss) for each in half]
    if len(points) < 2:
        return
    judged = plan.minutes >= JUDGED_FROM
    memory = 60 * statistics.linear_regression(*zip(*points, strict=True)).slope
    length = (half[-1].at - half[0].at) / 60
    growth = memory * length
    bound = GROWTH * half[0].rss
    most = max(each.rss for each in found.samples) / _MB
    yield Row(
        "memory: before, halfway, at the end, max",
        f"{found.before.rss / _MB:.0f}, {half[0].rss / _MB:.0f}, {half[-1].rss / _MB:.0f}, "
        f"{most:.0f} MB",
    )
    yield Row(
        "memory's slope in the second half",
        f"{memory / _MB:+.2f} MB a minute, {growth / _MB:+.1f} MB in all",
        f"{bound / _MB:.0f} MB in all" if judged else f"judged from {JUDGED_FROM} minutes on",
        growth <= bound if judged else None,
    )
    files = max(each.files for each in found.samples)
    threads = max(each.threads for each in found.samples)
    yield Row("open files, threads, max", f"{files}, {threads}")
    left = found.after.files - found.before.files
    # Loggers, a cache's connections, a loop's pipes.
    allowed = 20 * plan.workers + plan.idle_connections()
    yield _bounded("open files more than before, when nobody talks any more", left, allowed)


def _bounded(what: str, value: int, bound: int) -> Row:
    return Row(what, f"{value:,}", f"{bound:,}", value <= bound)


def _spread(seconds: Sequence[float], *, last: bool = False) -> str:
    """p50, p95 and p99, and if asked the largest, in milliseconds."""
    if len(seconds) < 2:
        return "–"
    parts = statistics.quantiles(seconds, n=100, method="inclusive")
    text = f"p50 {_ms(parts[49])}, p95 {_ms(parts[94])}, p99 {_ms(parts[98])}"
    return f"{text}, max {_ms(max(seconds))} ms" if last else f"{text} ms"


def _pair(one: Sequence[float], other: Sequence[float]) -> str:
    return "; ".join(
        f"p50 {_ms(statistics.median(each))} ms" if each else "–" for each in (one, other)
    )


def _ms(seconds: float) -> str:
    found = seconds * 1000
    return f"{found:,.0f}" if found >= 20 else f"{found:.1f}"
