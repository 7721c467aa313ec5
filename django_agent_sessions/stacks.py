"""What the threads of this process are doing, read without ever holding one of their frames.

Whoever drops the last reference to a frame finalizes its variables: in another thread than their
own, where mysqlclient, say, locks a connection that its thread is using. So each look is a single
call of iterators written in C, during which no other thread runs, and gives codes and values only.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from itertools import accumulate, chain, compress, islice, repeat, takewhile, tee
from operator import attrgetter, is_, is_not, itemgetter, methodcaller
from types import CodeType, FrameType
from typing import Any

from . import collector


def threads() -> list[int]:
    """Lists the threads that run Python code.

    Returns:
        Their identifiers.
    """
    with collector.resting():
        return next(map(list, iter(sys._current_frames, None)))


def codes(thread: int) -> list[CodeType]:
    """Tells which functions a thread stands in.

    Args:
        thread: Its identifier.

    Returns:
        Their codes, the innermost first; none if the thread has ended.
    """
    with collector.resting():
        try:
            return list(map(attrgetter("f_code"), _frames(thread)))
        except KeyError:
            return []


def variables(thread: int, code: CodeType, *names: str) -> list[tuple[Any, ...]]:
    """Reads local variables of a function that a thread stands in.

    Args:
        thread: Its identifier.
        code: The function's.
        *names: Those of the variables. They must be bound once only: Python before 3.13 keeps
            what it has told of a frame until that ends.

    Returns:
        The values for each call of it, the innermost first; None for what is not bound yet.
    """
    with collector.resting():
        try:
            # Not by a name here: the iterators hold the frames until they are dropped themselves.
            return list(_values_of_calls(thread, code, names))
        except KeyError:
            return []


def _values_of_calls(
    thread: int, code: CodeType, names: tuple[str, ...]
) -> Iterator[tuple[Any, ...]]:
    frames, again = tee(_frames(thread))
    calls = compress(frames, map(is_, repeat(code), map(attrgetter("f_code"), again)))
    found = tee(map(attrgetter("f_locals"), calls), len(names))
    return zip(*map(_values, names, found), strict=True)


def _values(name: str, found: Iterator[dict[str, Any]]) -> Iterator[Any]:
    return map(methodcaller("get", name), found)


def _frames(thread: int) -> Iterator[FrameType]:
    """Iterates over a thread's frames, the innermost first, with no instruction of Python."""
    innermost = islice(map(itemgetter(thread), iter(sys._current_frames, None)), 1)
    # The first is the innermost frame, each other one what is "f_back" of the one before.
    frames: Iterator[Any] = accumulate(chain(innermost, repeat("f_back")), getattr)
    return takewhile(partial(is_not, None), frames)
