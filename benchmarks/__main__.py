"""``python -m benchmarks``: measures, prints the results, and writes them into a page."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
from pathlib import Path


def main() -> int:
    """Runs the measurement."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--database",
        action="append",
        choices=["postgresql", "sqlite"],
        help="measure only on this one (PGHOST, PGPORT, PGUSER, PGPASSWORD name the server)",
    )
    parser.add_argument(
        "--store",
        action="append",
        metavar="NAME",
        help="measure only stores with this in their name, and the raw driver",
    )
    parser.add_argument(
        "--operation",
        action="append",
        metavar="NAME",
        help='measure only this: "append some", "at once"; an unknown one names all',
    )
    parser.add_argument("--quick", action="store_true", help="a smoke test on short conversations")
    parser.add_argument(
        "--write",
        type=Path,
        metavar="PAGE",
        help="put the results into this Markdown page too, with charts beside it",
    )
    arguments = parser.parse_args()
    # So that who ends it leaves no database behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))

    os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.settings"
    import django

    django.setup()
    # They tell of each session that is not there yet.
    logging.disable(logging.WARNING)
    # What follows needs Django's settings.
    from . import budgets, databases, measure, report, snapshots, starting, stores
    from .search_index import bytes_per_message

    wanted = arguments.operation or measure.OPERATIONS
    if unknown := set(wanted) - set(measure.OPERATIONS):
        parser.error(f"{', '.join(unknown)} is none of {', '.join(measure.OPERATIONS)}")
    is_partial = arguments.store or arguments.operation
    plan = measure.QUICK if arguments.quick else measure.Plan()
    found: list[report.Database] = []
    verdicts: list[budgets.Verdict] = []
    packages = ["django"]
    remarks = ["A smoke test: the figures mean nothing."] if arguments.quick else []
    if (load := os.getloadavg()[0]) > 1:
        remarks.append(f"Other work kept the machine busy (load {load:.1f} at the start).")
    for alias in arguments.database or ["postgresql", "sqlite"]:
        with databases.prepared(alias):
            measured_stores, missing = stores.stores_for(alias, arguments.store or [""])
            figures = asyncio.run(measure.measure(measured_stores, plan, missing, wanted))
            remarks += missing
            packages += [package for store in measured_stores for package in store.packages]
            notes = [store.remark for store in measured_stores if store.remark]
            if alias == "postgresql" and "size" in wanted:
                notes.append(bytes_per_message(alias))
            found.append(report.Database(databases.version(alias), figures, notes))
            # Ratios between conversations this short say nothing about the budgets.
            if not arguments.quick:
                judged = budgets.judge(alias, figures)
                verdicts += [v for v in judged if not is_partial or v.kept is not None]
            if not is_partial:
                # Many, because a save fills a page more of an SQLite file, or does not.
                verdicts += snapshots.judge(alias, plan.some, plan.many, 3 * plan.rounds)
    if not is_partial:
        verdicts += starting.judge(2 * plan.rounds - 1)
    text = report.page(plan, found, verdicts, packages, dict.fromkeys(remarks))
    print(text)
    if arguments.write is not None:
        report.write(arguments.write, text, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
