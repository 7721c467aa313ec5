"""What the threads of this process are doing, read without ever holding one of their frames.

Whoever drops the last reference to a frame finalizes its variables: in another thread than their
own, where mysqlclient, say, locks a connection that its thread is using. So each look is a single
call of iterators written in C, during which no other thread runs, and gives values only.
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

_CLOSE = 16
"""How many calls deep :func:`callers` looks.

Whoever starts a thread and waits for it is in its sixth, and more where starting is instrumented.
"""


def threads() -> list[int]:
    """Lists the threads that run Python code."""
    with collector.resting():
        return next(map(list, iter(sys._current_frames, None)))


def callers(code: CodeType, name: str) -> dict[int, Any]:
    """Finds the threads that wait in a function: it is among their innermost calls."""
    with collector.resting():
        looked = list(_look_close(code, name))
    found: dict[int, Any] = {}
    for thread, *values in looked:
        value = next((value for value in values if value is not None), None)
        if value is not None:
            found[thread] = value
    return found


def variables(thread: int, code: CodeType, *names: str) -> list[tuple[Any, ...]]:
    """Reads local variables of a function that a thread stands in."""
    with collector.resting():
        try:
            # Not by a name here: the iterators hold the frames until they are dropped themselves.
            return list(_values_of_calls(thread, code, names))
        except KeyError:
            # The thread has ended.
            return []


def _look_close(code: CodeType, name: str) -> Iterator[tuple[Any, ...]]:
    """Iterates over all threads: each one's identifier, and what the variable is at each depth."""
    current = islice(iter(sys._current_frames, None), 1)
    numbered, rest = tee(chain.from_iterable(map(dict.items, current)))
    outer: Iterator[Any] = map(itemgetter(1), rest)
    values = []
    for _ in range(_CLOSE):
        outer, frames, again = tee(outer, 3)
        outer = map(getattr, outer, repeat("f_back"), repeat(None))
        codes: Iterator[Any] = map(getattr, again, repeat("f_code"), repeat(None))
        # Other functions' variables are not asked for; no builtin has such a name.
        namespaces = map(("f_builtins", "f_locals").__getitem__, _are(code, codes))
        values.append(_values(name, map(getattr, frames, namespaces, repeat({}))))
    return zip(map(itemgetter(0), numbered), *values, strict=False)


def _values_of_calls(
    thread: int, code: CodeType, names: tuple[str, ...]
) -> Iterator[tuple[Any, ...]]:
    frames, again = tee(_frames(thread))
    found = tee(map(_F_LOCALS, compress(frames, _are(code, map(_F_CODE, again)))), len(names))
    return zip(*map(_values, names, found), strict=True)


_F_CODE = attrgetter("f_code")
_F_LOCALS = attrgetter("f_locals")


def _frames(thread: int) -> Iterator[FrameType]:
    """Iterates over a thread's frames, the innermost first."""
    innermost = islice(map(itemgetter(thread), iter(sys._current_frames, None)), 1)
    # The first is the innermost frame, each other one what is "f_back" of the one before.
    frames: Iterator[Any] = accumulate(chain(innermost, repeat("f_back")), getattr)
    return takewhile(partial(is_not, None), frames)


def _are(code: CodeType, codes: Iterator[CodeType]) -> Iterator[bool]:
    return map(is_, codes, repeat(code))


def _values(name: str, found: Iterator[dict[str, Any]]) -> Iterator[Any]:
    return map(methodcaller("get", name), found)
