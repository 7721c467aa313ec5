"""How late an event loop is: whoever asks to be called in 20 ms is called so much later.

Beside it stands how long the loop's thread computed meanwhile. A loop that is late and computed
less waited for a processor, which other threads and processes had, or was blocked.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

from .notes import Notes

EVERY = 0.02
"""Seconds between two looks."""

_LINE = 50
_notes = Notes("lag")


def watched(application: Callable[[Any, Any, Any], Awaitable[None]]) -> Any:
    """Makes an ASGI application watch the loop that it runs in, from its first call on."""
    watching: list[asyncio.Task[None]] = []

    async def wrapped(scope: Any, receive: Any, send: Any) -> None:
        if not watching:
            watching.append(asyncio.create_task(_watch()))
        await application(scope, receive, send)

    return wrapped


async def _watch() -> None:
    loop = asyncio.get_running_loop()
    found: list[tuple[float, float]] = []
    while True:
        expected, computed = loop.time() + EVERY, time.thread_time()
        await asyncio.sleep(EVERY)
        late, computed = loop.time() - expected, time.thread_time() - computed
        found.append((round(late, 5), round(computed, 5)))
        if len(found) == _LINE:
            _notes.add(json.dumps(found))
            found.clear()
