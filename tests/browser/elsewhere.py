"""Work in a thread without a loop, as a worker or a request of a project has it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from django.db import connections

_T = TypeVar("_T")


def elsewhere(work: Callable[[], _T]) -> _T:
    """Does something in another thread: Playwright's loop runs in that of the tests."""

    def done() -> _T:
        try:
            return work()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(done).result()
