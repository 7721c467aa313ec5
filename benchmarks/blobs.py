"""``python -m benchmarks.blobs``: a conversation with images, restored from S3 by ours and theirs.

``DjangoSessionManager`` with ``BLOB_STORAGE`` on django-storages' ``S3Storage`` and a database in
an SQLite file, against Strands' ``S3SessionManager``: the same 50 questions with an image of
200 kB and 50 answers, the same bucket of one moto server, which is a process of its own. Between
them and the server is a proxy, in the process that only waits, that lets each request wait as a
network would; and once none. Both are restored by real agents, each time a new one with a new
manager, in turns.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import django
from django.conf import settings

from .object_storage import BUCKET, KEYS, served, session
from .servers.proxy import Proxy
from .tables import table

OURS = "DjangoSessionManager"
THEIRS = "S3SessionManager"


def configure(endpoint: str, directory: str) -> None:
    """Sets Django up as the documentation says."""
    settings.configure(
        SECRET_KEY="benchmark",
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.sqlite3",
                "NAME": str(Path(directory) / "blobs.sqlite3"),
                "OPTIONS": {
                    "transaction_mode": "IMMEDIATE",
                    "init_command": "PRAGMA journal_mode=WAL;",
                },
            }
        },
        STORAGES={
            "blobs": {
                "BACKEND": "storages.backends.s3.S3Storage",
                "OPTIONS": {
                    "access_key": KEYS["aws_access_key_id"],
                    "secret_key": KEYS["aws_secret_access_key"],
                    "region_name": KEYS["region_name"],
                    "bucket_name": BUCKET,
                    "endpoint_url": endpoint,
                },
            },
        },
        AGENT_SESSIONS={"BLOB_STORAGE": "blobs"},
        USE_TZ=True,
        INSTALLED_APPS=[
            "django.contrib.auth",
            "django.contrib.contenttypes",
            "django_agent_sessions",
        ],
    )
    django.setup()


def manager(name: str, endpoint: str) -> Any:
    """Makes the manager of a conversation, as a request or a job would."""
    if name == OURS:
        from django_agent_sessions.adapters.strands import DjangoSessionManager

        return DjangoSessionManager("conversation")
    from strands.session.s3_session_manager import S3SessionManager

    return S3SessionManager(
        "conversation", BUCKET, prefix="strands", boto_session=session(), endpoint_url=endpoint
    )


def conversation(images: int, size: int) -> Iterator[dict[str, Any]]:
    """Questions with an image each, and answers."""
    for number in range(images):
        image = b"\x89PNG\r\n\x1a\n" + os.urandom(size - 8)
        source = {"format": "png", "source": {"bytes": image}}
        yield {"role": "user", "content": [{"text": f"What is on {number}?"}, {"image": source}]}
        yield {"role": "assistant", "content": [{"text": f"A cat on mat {number}. " * 20}]}


def upload(name: str, endpoint: str, images: int, size: int) -> float:
    """Appends the conversation by the hook that a running agent fires; seconds."""
    from strands.hooks.events import MessageAddedEvent

    from .stores.strands_agent import build

    messages = list(conversation(images, size))
    agent = build(manager(name, endpoint))
    began = time.perf_counter()

    async def append() -> None:
        for message in messages:
            agent.messages.append(cast("Any", message))
            event = MessageAddedEvent(agent=agent, message=cast("Any", message))
            await agent.hooks.invoke_callbacks_async(event)

    asyncio.run(append())
    return time.perf_counter() - began


def restore(name: str, endpoint: str, images: int, size: int) -> float:
    """Builds an agent on the conversation; seconds."""
    from .stores.strands_agent import build

    began = time.perf_counter()
    agent = build(manager(name, endpoint))
    took = time.perf_counter() - began
    found = [
        block["image"]["source"]["bytes"]
        for message in agent.messages
        for block in message["content"]
        if "image" in block
    ]
    assert len(agent.messages) == 2 * images
    assert [len(data) for data in found] == [size] * images
    return took


def _work(given: argparse.Namespace) -> None:
    configure(given.endpoint, given.directory)
    import strands  # noqa: F401 - imported by every program that has an agent
    from strands.session.s3_session_manager import S3SessionManager  # noqa: F401 - so are these

    import django_agent_sessions.adapters.strands  # noqa: F401 - and they import this

    if given.work == "upload":
        from django.core.management import call_command

        call_command("migrate", verbosity=0)
    do = upload if given.work == "upload" else restore
    names = given.names.split(",")
    took: dict[str, list[float]] = {name: [] for name in names}
    for number in range(given.times):
        for name in names if number % 2 else names[::-1]:
            took[name].append(do(name, given.endpoint, given.images, given.size))
    print(json.dumps(took))


def measure(latency: float, directory: str, given: argparse.Namespace) -> list[list[str]]:
    """Measure at one latency; return the rows of a table."""
    with served() as endpoint:
        proxy = Proxy(lambda: int(endpoint.rpartition(":")[2]), latency=latency / 1000)
        through = f"http://127.0.0.1:{proxy.port}" if latency else endpoint
        run = ["--endpoint", through, "--directory", directory]
        run += ["--images", str(given.images), "--size", str(given.size)]

        def process(work: str, names: str, times: int) -> dict[str, list[float]]:
            command = [sys.executable, "-m", "benchmarks.blobs", "--work", work]
            command += ["--names", names, "--times", str(times), *run]
            out = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
            found: dict[str, list[float]] = json.loads(out.splitlines()[-1])
            return found

        both = f"{OURS},{THEIRS}"
        rows = [_row(latency, "100 appends", process("upload", both, 1))]
        cold: dict[str, list[float]] = {OURS: [], THEIRS: []}
        for _ in range(given.processes):
            # A process each: the second would find modules and connections ready.
            for name in (OURS, THEIRS):
                cold[name] += process("restore", name, 1)[name]
        rows.append(_row(latency, "restore, first in a process", cold))
        warm = process("restore", both, given.times + 1)
        rows.append(_row(latency, "restore", {name: found[1:] for name, found in warm.items()}))
        return rows


def _row(latency: float, what: str, took: dict[str, list[float]]) -> list[str]:
    ours, theirs = (statistics.median(took[name]) * 1000 for name in (OURS, THEIRS))
    return [what, f"{latency:g} ms", f"{ours:,.0f}", f"{theirs:,.0f}", f"{theirs / ours:.1f}×"]


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--latency", type=float, help="milliseconds; by default 0, 25 and 100")
    parser.add_argument("--images", type=int, default=50)
    parser.add_argument("--size", type=int, default=200_000)
    parser.add_argument("--times", type=int, default=9)
    parser.add_argument("--processes", type=int, default=3)
    for name in ("work", "names", "endpoint", "directory"):
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        _work(given)
    else:
        rows = []
        for latency in (0.0, 25.0, 100.0) if given.latency is None else (given.latency,):
            with tempfile.TemporaryDirectory() as directory:
                rows += measure(latency, directory, given)
        head = ["what", "latency", "ours (ms)", "S3SessionManager (ms)", "times as fast"]
        print(table(head, rows))


if __name__ == "__main__":
    main()
