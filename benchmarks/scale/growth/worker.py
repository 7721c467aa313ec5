"""The process of one size: does what comes as a line, and answers how long it took."""

from __future__ import annotations

import json
import os
import sys
import time

os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.scale.growth.settings"

import django

django.setup()

from benchmarks.scale.growth import deleting, loading
from benchmarks.scale.growth.work import Bench


def main() -> None:
    """Loads if it is told to, and serves until its input ends."""
    if "load" in sys.argv:
        loading.load(int(sys.argv[1]))
        if sys.argv[-1] != "load":
            loading.partition(int(sys.argv[-1]))
    bench = Bench(int(sys.argv[1]))
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(_answer(bench, **asked)), flush=True)


def _answer(bench: Bench, work: str = "", delete: int = 0, large: int = 0) -> object:
    if delete:
        return deleting.delete_oldest(delete)
    if large:
        return deleting.delete_large(large)
    prepared = bench.prepared(work)
    started = time.perf_counter()
    prepared()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
