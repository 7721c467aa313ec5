"""Measure the app's own stores once, with the benchmark of the checkout that this runs in.

    cd CHECKOUT && .venv/bin/python …/maintenance/bench.py [sqlite] [postgresql]

Prints JSON: for each line, ``database, store, operation``, its median seconds, or bytes. The plan
is smaller than that of ``python -m benchmarks``, and the same for every checkout.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys

sys.path[0] = os.getcwd()
os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.settings"

import django

django.setup()
logging.disable(logging.WARNING)

from benchmarks import databases, measure, stores

OWN = (
    "ours_store.Bare",
    "ours_strands.Strands",
    "strands_snapshots.OnDjango",
    "ours_openai.OpenAI",
    "ours_openai.Advanced",
)
PLAN = measure.Plan(
    some=1_000,
    many=3_000,
    rounds=1,
    appends=80,
    concurrent=20,
    each=10,
    sessions=5_000,
    turns=50,
    processes=0,
)


def main() -> None:
    lines: dict[str, float] = {}
    for alias in sys.argv[1:] or ["sqlite", "postgresql"]:
        with databases.prepared(alias):
            own = [stores.find(path)(alias) for path in OWN]
            found = asyncio.run(measure.measure(own, PLAN, []))
        for store, figures in found.items():
            line = f"{alias}, {store}"
            lines |= {f"{line}, {name}": taken for name, taken in figures.seconds.items()}
            if figures.rate:
                lines[f"{line}, append at once"] = 1 / figures.rate
            if figures.size:
                lines[f"{line}, bytes per message"] = figures.size
    print(json.dumps(lines))


if __name__ == "__main__":
    main()
