"""``python -m benchmarks``: measures, prints the results, and writes them into a page."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path


def main() -> int:
    """Runs the measurement.

    Returns:
        The exit status.
    """
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
    parser.add_argument("--quick", action="store_true", help="a smoke test on short conversations")
    parser.add_argument(
        "--write", type=Path, metavar="PAGE", help="put the results into this Markdown page too"
    )
    arguments = parser.parse_args()

    os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.settings"
    import django

    django.setup()
    # What follows needs Django's settings.
    from . import budgets, databases, measure, report, stores

    plan = measure.QUICK if arguments.quick else measure.Plan()
    found = []
    packages = ["django"]
    remarks = ["A smoke test: the figures mean nothing."] if arguments.quick else []
    for alias in arguments.database or ["postgresql", "sqlite"]:
        with databases.prepared(alias):
            measured_stores, missing = stores.stores_for(alias, arguments.store or [""])
            remarks += missing
            packages += [package for store in measured_stores for package in store.packages]
            figures = asyncio.run(measure.measure(measured_stores, plan))
            # Ratios between conversations this short say nothing about the budgets.
            verdicts = [] if arguments.quick else list(budgets.judge(alias, figures))
            found.append((databases.version(alias), figures, verdicts))
    text = report.page(plan, found, packages, dict.fromkeys(remarks))
    print(text)
    if arguments.write is not None:
        report.write(arguments.write, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
