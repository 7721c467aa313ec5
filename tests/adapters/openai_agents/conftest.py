"""Fixtures of the tests of this adapter."""

from __future__ import annotations

import asyncio

import pytest


@pytest.fixture
def thread_loop():
    """The loop that ``Runner.run_sync`` uses in this thread, and leaves open for its next call."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield loop
    asyncio.set_event_loop(None)
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
