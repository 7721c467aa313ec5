"""``python -m benchmarks.chaos``: breaks things, and says what came of it."""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from benchmarks.servers.processes import end_on_sigterm

from . import report
from .running import Plan, run

DATABASES = ("sqlite", "postgresql", "mariadb")


def main() -> int:
    """Runs it on one database, or on all, one after the other."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chaos", description=__doc__)
    parser.add_argument("--database", choices=[*DATABASES, "all"], default="all")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=None, help="the same again; else a new one")
    parser.add_argument("--only", action="append", default=[], help="only this fault; repeatable")
    parser.add_argument("--writers", type=int, help="how many of each kind; else 3, 2 and 2")
    parser.add_argument(
        "--keep", type=Path, help="write all operations, faults and rows to this file"
    )
    parser.add_argument(
        "--write", type=Path, metavar="PAGE", help="put the tables into this Markdown page too"
    )
    arguments = parser.parse_args()
    end_on_sigterm()
    seed = random.SystemRandom().randrange(10**6) if arguments.seed is None else arguments.seed
    if arguments.database == "all":
        return _all(arguments, seed)
    plan = Plan(arguments.database, arguments.minutes * 60, seed, kinds=tuple(arguments.only))
    if arguments.writers is not None:
        plan = replace(plan, writers=dict.fromkeys(plan.writers, arguments.writers))
    print(f"{plan.database}: {plan.seconds:.0f} seconds with seed {seed} …", flush=True)
    result = run(plan)
    print("\n".join([report.page(result), "", *report.details(result)]))
    if arguments.write is not None:
        report.write(arguments.write, result)
    if arguments.keep is not None:
        kept = map(repr, [*result.operations, *result.faults, *result.found.rows])
        arguments.keep.write_text("\n".join(kept) + "\n")
    return 0 if result.passed else 1


def _all(arguments: argparse.Namespace, seed: int) -> int:
    # One process for each, because Django has one set of settings in each.
    statuses = [
        subprocess.run(
            [
                *(sys.executable, "-m", "benchmarks.chaos", "--database", database),
                *("--minutes", str(arguments.minutes), "--seed", str(seed)),
                *(part for name in arguments.only for part in ("--only", name)),
                *(("--write", str(arguments.write)) if arguments.write else ()),
            ],
            check=False,
        ).returncode
        for database in DATABASES
    ]
    return 0 if not any(statuses) else 1


if __name__ == "__main__":
    sys.exit(main())
