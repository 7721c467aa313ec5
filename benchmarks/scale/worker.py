"""The process of one size: does what comes as a line of JSON, and answers how long it took."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import tracemalloc
from typing import Any

os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.scale.settings"

import django

django.setup()

from django.contrib.auth import get_user_model
from django.db import connection, reset_queries
from django.test import Client
from django.test.utils import CaptureQueriesContext

from benchmarks.scale import deleting, loading, surroundings
from benchmarks.scale.work import Bench


def main() -> None:
    """Load if it is told to, and serve until its input ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("messages", type=int)
    parser.add_argument("--load", action="store_true")
    parser.add_argument("--pages", action="store_true")
    parser.add_argument("--partitions", type=int, default=0)
    parser.add_argument("--each", type=int, default=0, help="messages of each of many sessions")
    given = parser.parse_args()
    chosen: dict[str, str] = {}
    if given.load:
        each = given.each or loading.MESSAGES
        chosen = loading.load(given.messages, pages=given.pages, each=each)
    if given.load and given.each:
        surroundings.surround()
        loading.vacuum()
    if given.load and given.partitions:
        loading.partition(given.partitions)
    bench = None if given.pages else Bench(given.messages)
    client = Client()
    client.force_login(get_user_model().objects.get(username=loading.STAFF))
    print(json.dumps(chosen), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        done = _page(client, **asked) if bench is None else _work(bench, **asked)
        print(json.dumps(done), flush=True)


def _work(bench: Bench, work: str = "", delete: int = 0, large: int = 0) -> object:
    if delete:
        return deleting.delete_oldest(delete)
    if large:
        return deleting.delete_large(large)
    prepared = bench.prepared(work)
    started = time.perf_counter()
    prepared()
    return time.perf_counter() - started


def _page(
    client: Client, url: str = "", memory: bool = False, keys: bool = False
) -> dict[str, Any]:
    if keys:
        return surroundings.keys()
    reset_queries()
    if memory:
        tracemalloc.start()
    started, worked = time.perf_counter(), time.process_time()
    with CaptureQueriesContext(connection) as captured:
        response = client.get(url)
        content = b"".join(response) if response.streaming else response.content
    seconds = time.perf_counter() - started
    processor = time.process_time() - worked
    peak = tracemalloc.get_traced_memory()[1] if memory else 0
    tracemalloc.stop()
    assert response.status_code == 200, (url, response.status_code)
    return {
        "statements": len(captured),
        "seconds": seconds,
        "processor": processor,
        "database": sum(float(query["time"]) for query in captured.captured_queries),
        "bytes": len(content),
        "peak": peak,
        "queries": captured.captured_queries,
    }


if __name__ == "__main__":
    main()
