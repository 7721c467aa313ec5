"""One of the two sites: answers requests that come as lines of JSON, and says what they took."""

from __future__ import annotations

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

from benchmarks.scale.loading import load


def serve(client: Client) -> None:
    """Answers until its input ends."""
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(_answer(client, **asked)), flush=True)


def _answer(client: Client, url: str, memory: bool = False) -> dict[str, Any]:
    reset_queries()
    if memory:
        tracemalloc.start()
    started = time.perf_counter()
    with CaptureQueriesContext(connection) as captured:
        response = client.get(url)
        content = b"".join(response) if response.streaming else response.content
    seconds = time.perf_counter() - started
    peak = tracemalloc.get_traced_memory()[1] if memory else 0
    if memory:
        tracemalloc.stop()
    assert response.status_code == 200, (url, response.status_code)
    database = sum(float(query["time"]) for query in captured.captured_queries)
    return {
        "statements": len(captured),
        "seconds": seconds,
        "database": database,
        "bytes": len(content),
        "peak": peak,
    }


def main() -> None:
    """Loads, says which sessions there are, and serves."""
    print(json.dumps(load(int(sys.argv[1]))), flush=True)
    user = get_user_model().objects.create_superuser("reader", password="x")
    client = Client()
    client.force_login(user)
    serve(client)


if __name__ == "__main__":
    main()
