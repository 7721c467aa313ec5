"""The example's ASGI application, with a watch on its loop.

Every 20 ms it notes how late the loop is, and how long the loop's thread computed meanwhile. A loop
that is late and computed less waited for a processor, or was blocked.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchmarks.load.settings")

from example_project.asgi import application as example

from .notes import Notes

EVERY = 0.02
"""Seconds between two looks."""

_LINE = 50
_notes = Notes("lag")
_watching: list[asyncio.Task[None]] = []


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Begin to watch with the first call."""
    if not _watching:
        _watching.append(asyncio.create_task(_watch()))
    await example(scope, receive, send)


async def _watch() -> None:
    loop = asyncio.get_running_loop()
    found: list[tuple[float, float]] = []
    while True:
        expected, computed = loop.time() + EVERY, time.thread_time()
        await asyncio.sleep(EVERY)
        late, computed = loop.time() - expected, time.thread_time() - computed
        found.append((round(late, 5), round(computed, 5)))
        if len(found) == _LINE:
            _notes.add(found)
            found.clear()
