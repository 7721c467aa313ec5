"""``python -m benchmarks.without``: what each hand-written mechanism of the app gains.

Each is replaced by Django's or the standard library's plain way, and the lines of the benchmark
that it serves are measured with it and without it, in turns. A cell has the milliseconds with and
without it by the clock, and those of this process's processor time in brackets.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .measure import Operations, Plan
    from .plain_ways import Mechanism

BEGIN = "<!-- mechanisms: begin -->"
END = "<!-- mechanisms: end -->"

_TIMES = {
    "append 0": 20,
    "append some": 40,
    "batch": 6,
    "restore 10": 30,
    "restore some": 6,
    "latest": 30,
    "list": 10,
    "at once": 1,
    "copy": 2,
    "pop": 10,
    "redact": 1,
}
"""How often each line runs in a round."""


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.without", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="a part of a mechanism's name")
    parser.add_argument("--database", action="append", choices=["postgresql", "sqlite"])
    parser.add_argument(
        "--write", type=Path, metavar="PAGE", help="put the table into this Markdown page too"
    )
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.settings"
    import django

    django.setup()
    logging.disable(logging.WARNING)
    from . import databases, plain_ways
    from .tables import DASH, replace_between, table

    wanted = [
        one
        for one in plain_ways.MECHANISMS
        if not arguments.names or any(name in one.name for name in arguments.names)
    ]
    load = os.getloadavg()[0]
    cells: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for alias in arguments.database or plain_ways.BOTH:
        here = [one for one in wanted if alias in one.databases]
        if here:
            with databases.prepared(alias):
                for name, line, cell in asyncio.run(_measure(alias, here, arguments.rounds)):
                    cells[name, line][alias] = cell
    rows = [
        [one.name, f"`{one.file}`", one.plain, line]
        + [cells[one.name, line].get(alias, DASH) for alias in plain_ways.BOTH]
        for one in wanted
        for line, _ in one.lines
    ]
    head = ["mechanism", "file", "instead of", "row of the benchmark", "PostgreSQL", "SQLite"]
    text = table(head, rows, "llllrr")
    if load > 1:
        busy = f"Other work kept the machine busy (load {load:.0f}): read the processor times."
        text = f"{busy}\n\n{text}"
    print(text)
    if arguments.write is not None:
        replace_between(arguments.write, BEGIN, END, text)
    return 0


async def _measure(
    alias: str, mechanisms: list[Mechanism], rounds: int
) -> list[tuple[str, str, str]]:
    from . import measure, stores

    rows = []
    plan = replace(measure.Plan(), many=2_000, sessions=5_000)
    paths = {path for one in mechanisms for _, path in one.lines}
    made: dict[str, Operations] = {}
    for path in sorted(paths):
        store = stores.find(path)(alias)
        lines = {line for one in mechanisms for line, where in one.lines if where == path}
        made[path] = measure.Operations(store, plan, lines)
        await made[path].fill()
    await _fill(alias)
    for one in mechanisms:
        for line, path in one.lines:
            run = _runner(made[path], plan, line)
            await run()
            figures: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
            for turn in range(2 * rounds * _TIMES[line]):
                # With, without, without, with: so that neither always comes first.
                plain = turn % 4 in (1, 2)
                with one.replace() if plain else nullcontext():
                    figures[plain].append(await run())
            wall, processor = (
                [statistics.median(f[index] for f in figures[plain]) for plain in (False, True)]
                for index in (0, 1)
            )
            cell = "{:.2f} / {:.2f} ({:.2f} / {:.2f})".format(*(1e3 * s for s in wall + processor))
            rows.append((one.name, line, cell))
            shares = [f"{100 * (1 - kept / gone):.0f} %" for kept, gone in (wall, processor)]
            print(alias, one.name, line, cell, *shares, file=sys.stderr, flush=True)
    return rows


def _runner(
    operations: Operations, plan: Plan, line: str
) -> Callable[[], Awaitable[tuple[float, float]]]:
    """Return what runs a line once: seconds by the clock, and of the processor."""

    async def at_once() -> tuple[float, float]:
        started = time.process_time()
        rate = await operations.write_at_once()
        return 1 / rate, (time.process_time() - started) / (plan.concurrent * plan.each)

    async def once() -> tuple[float, float]:
        operation = await (_MORE[line]() if line in _MORE else operations.prepare(line))
        started, computed = time.perf_counter(), time.process_time()
        await operation()
        return time.perf_counter() - started, time.process_time() - computed

    return at_once if line == "at once" else once


_kept: dict[str, Any] = {}


async def _fill(alias: str) -> None:
    """Make what the lines of :data:`_MORE` need."""
    from django_agent_sessions.store import SessionStore

    from .messages import openai_items

    store = SessionStore(using=alias)
    _kept.update(store=store, numbers=iter(range(10**9)), items=openai_items(1_000))
    _kept["agent"] = await _conversation(1_000)


async def _conversation(count: int) -> Any:
    store = _kept["store"]
    session = await store.aopen(f"without-{next(_kept['numbers'])}")
    agent = await store.agents.aopen(session, dialect="openai")
    await store.aappend_many(agent, _kept["items"][:count])
    return agent


async def _copy() -> Callable[[], Awaitable[object]]:
    return lambda: _kept["store"].branches.acreate(_kept["agent"])


async def _pop() -> Callable[[], Awaitable[object]]:
    agent = await _conversation(2)
    return lambda: _kept["store"].apop(agent)


async def _redact() -> Callable[[], Awaitable[object]]:
    from django_agent_sessions.db.bridge import run_async
    from django_agent_sessions.governance import redaction

    agent, using = await _conversation(200), _kept["store"].using
    scope = redaction.Find("agent")
    redact = partial(redaction.redact, agent.session, scope, reason="measured", using=using)
    return lambda: run_async(redact, using=using)


_MORE = {"copy": _copy, "pop": _pop, "redact": _redact}
"""Lines that the comparison of stores does not have."""


if __name__ == "__main__":
    sys.exit(main())
