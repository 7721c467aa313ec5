"""Measure the app's own stores in two checkouts in turn, and list what is slower in the second.

    python -m maintenance.alternate BEFORE_DIR AFTER_DIR [--rounds 5] [--database sqlite]

Each checkout has a ``.venv`` of its own and measures with its own ``benchmarks``; the one that
begins changes from round to round. A line is slower if its median is above the first checkout's by
more than 5 % and the spread together. The spread is the wider interquartile range of the two.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

ALLOWED = 0.05
SCRIPT = Path(__file__).with_name("bench.py").resolve()
Rounds = dict[str, list[float]]


def measure(tree: Path, databases: list[str]) -> dict[str, float]:
    """Measure a checkout once."""
    started = time.monotonic()
    command = [str(tree / ".venv/bin/python"), str(SCRIPT), *databases]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{tree}:\n{done.stderr[-3000:]}")
    print(f"{tree}: {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def spread(values: list[float]) -> float:
    """Return the interquartile range of the rounds; 0 for a single round."""
    if len(values) < 2:
        return 0
    first, _, third = statistics.quantiles(values, n=4, method="inclusive")
    return third - first


def report(before: Rounds, after: Rounds) -> int:
    """Print each line; return how many are slower or missing."""
    bad = 0
    print(f"{'ms (bytes)':62} {'before':>10} {'after':>10} {'change':>8} {'spread':>8}")
    for line, values in before.items():
        if line not in after:
            bad += 1
            print(f"{line:62} MISSING")
            continue
        then, now = statistics.median(values), statistics.median(after[line])
        noise = max(spread(values), spread(after[line])) / then
        slower = now / then - 1 > ALLOWED + noise
        bad += slower
        scale = 1 if line.endswith("bytes per message") else 1_000
        print(
            f"{line:62} {then * scale:10.3f} {now * scale:10.3f} {now / then - 1:+8.1%}"
            f" {noise:8.1%}{'  SLOWER' if slower else ''}"
        )
    print(f"{bad} of {len(before)} lines are slower by more than {ALLOWED:.0%} beyond the spread")
    return bad


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m maintenance.alternate")
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--database", action="append", choices=["sqlite", "postgresql"])
    given = parser.parse_args()
    trees = [given.before.absolute(), given.after.absolute()]
    rounds: list[Rounds] = [defaultdict(list), defaultdict(list)]
    for number in range(given.rounds):
        for which in (0, 1) if number % 2 == 0 else (1, 0):
            for line, value in measure(trees[which], given.database or []).items():
                rounds[which][line].append(value)
    return 1 if report(*rounds) else 0


if __name__ == "__main__":
    sys.exit(main())
