"""Parallel calls of a function."""

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
    """Yield the results or errors of a function for each item, called in threads.

    Only a few calls run ahead of the consumer, so that many large results are not in memory
    together. Closing the generator cancels the remaining calls.
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
        pending: deque[Future[R | Exception]] = deque()
        try:
            for item in items:
                pending.append(pool.submit(attempt, item))
                if len(pending) > 2 * width:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()
