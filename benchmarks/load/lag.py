"""How late an event loop is: whoever asks to be called in 20 ms is called so much later."""

from __future__ import annotations

import asyncio
import json
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
    found: list[float] = []
    while True:
        expected = loop.time() + EVERY
        await asyncio.sleep(EVERY)
        found.append(round(loop.time() - expected, 5))
        if len(found) == _LINE:
            _notes.add(json.dumps(found))
            found.clear()
