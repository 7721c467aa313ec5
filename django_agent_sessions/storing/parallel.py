"""Doing one thing to many, some at the same time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def in_parallel(
    function: Callable[[T], R], items: Sequence[T], *, width: int = 8
) -> Iterator[R | Exception]:
    """Calls a function for each item, in threads, for work that waits for a network or a disk.

    Only a few calls are ahead of what was taken, so that many large results are not in memory
    together. Who stops taking stops the rest.
    """

    def attempt(item: T) -> R | Exception:
        try:
            return function(item)
        except Exception as error:
            return error

    if len(items) < 2:
        yield from map(attempt, items)
        return
    width = min(width, len(items))
    with ThreadPoolExecutor(width, "agent-sessions-files") as pool:
        ahead: deque[Future[R | Exception]] = deque()
        try:
            for item in items:
                ahead.append(pool.submit(attempt, item))
                if len(ahead) > 2 * width:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            for waiting in ahead:
                waiting.cancel()
