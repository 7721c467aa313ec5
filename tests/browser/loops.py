"""Playwright and the database in one thread.

Playwright's loop runs in the thread of the tests, in a greenlet of its own, and is said to be
running between two calls of it, too. Django then refuses the database, although nothing can come
in between. So the loop is said to be running only while a call waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import greenlet
import pytest
from playwright._impl import _sync_base
from playwright._impl.utils import tasks
from playwright.sync_api import Playwright, sync_playwright


class LoopOf:
    """The module ``asyncio``, as seen by code that leaves it to others which loop is meant.

    After an ``asyncio.run`` the thread has none any more that could be found.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    def ensure_future(self, awaitable: Any) -> Any:
        return asyncio.ensure_future(awaitable, loop=self._loop)


@contextmanager
def playwright_beside_django() -> Iterator[Playwright]:
    """Starts Playwright; between its calls its thread has no running loop."""
    wait_in_loop = _sync_base.wait_for_future  # type: ignore[attr-defined] # it is private

    def wait(loop: asyncio.AbstractEventLoop, *args: Any) -> None:
        asyncio._set_running_loop(loop)
        try:
            wait_in_loop(loop, *args)
        finally:
            # Callbacks have greenlets of their own, inside the loop.
            if greenlet.getcurrent().parent is None:
                asyncio._set_running_loop(None)

    with pytest.MonkeyPatch.context() as patch, sync_playwright() as playwright:
        patch.setattr(_sync_base, "wait_for_future", wait)
        patch.setattr(tasks, "asyncio", LoopOf(playwright._loop))
        asyncio._set_running_loop(None)
        try:
            yield playwright
        finally:
            asyncio._set_running_loop(playwright._loop)
