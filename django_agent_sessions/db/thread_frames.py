"""Read what the threads of this process are doing, without holding a reference to their frames.

Dropping the last reference to a frame finalizes its variables, in another thread than their own:
mysqlclient, for example, would then lock a connection that its thread is using. So each read is a
single call of iterators written in C, during which no other thread runs, and returns values only.

Python 3.11 may also collect garbage while it creates a frame object. If a finalizer then lets the
other thread run, its frame may be freed before the object is complete, and the process crashes. So
garbage collection is paused meanwhile. Python 3.12 and later collect garbage only between two
instructions.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import accumulate, chain, compress, islice, repeat, takewhile, tee
from operator import attrgetter, is_, is_not, itemgetter, methodcaller
from types import CodeType, FrameType
from typing import Any

_MAX_DEPTH = 16
"""Number of innermost frames that :func:`waiting_threads` reads.

A thread that starts another and waits for it is six frames deep, more if starting is instrumented.
"""


def thread_ids() -> list[int]:
    """Return the identifiers of the threads that run Python code."""
    with paused_gc():
        return next(map(list, iter(sys._current_frames, None)))


def waiting_threads(code: CodeType, name: str) -> dict[int, Any]:
    """Return the threads that wait in a function and the value of its local variable ``name``.

    Only their innermost calls are read.
    """
    with paused_gc():
        rows = list(_innermost_variables(code, name))
    result: dict[int, Any] = {}
    for thread, *values in rows:
        value = next((value for value in values if value is not None), None)
        if value is not None:
            result[thread] = value
    return result


def local_variables(thread: int, code: CodeType, *names: str) -> list[tuple[Any, ...]]:
    """Read local variables of the calls of a function on a thread's stack, innermost call first.

    The variables must be assigned only once: before Python 3.13 a frame keeps the values that were
    read first. A variable that is not assigned yet is None.
    """
    with paused_gc():
        try:
            # Not assigned to a name: the iterators hold the frames until they are freed.
            return list(_values_of_calls(thread, code, names))
        except KeyError:
            # The thread has ended.
            return []


def _innermost_variables(code: CodeType, name: str) -> Iterator[tuple[Any, ...]]:
    """Iterate over all threads: the identifier and the value of the variable at each depth."""
    current = islice(iter(sys._current_frames, None), 1)
    numbered, rest = tee(chain.from_iterable(map(dict.items, current)))
    outer: Iterator[Any] = map(itemgetter(1), rest)
    values = []
    for _ in range(_MAX_DEPTH):
        outer, frames, again = tee(outer, 3)
        outer = map(getattr, outer, repeat("f_back"), repeat(None))
        codes: Iterator[Any] = map(getattr, again, repeat("f_code"), repeat(None))
        # Other functions' variables must not be read; f_builtins has no such name.
        namespaces = map(("f_builtins", "f_locals").__getitem__, _is_code(code, codes))
        values.append(_values(name, map(getattr, frames, namespaces, repeat({}))))
    return zip(map(itemgetter(0), numbered), *values, strict=False)


def _values_of_calls(
    thread: int, code: CodeType, names: tuple[str, ...]
) -> Iterator[tuple[Any, ...]]:
    frames, again = tee(_frames(thread))
    namespaces = tee(
        map(_F_LOCALS, compress(frames, _is_code(code, map(_F_CODE, again)))), len(names)
    )
    return zip(*map(_values, names, namespaces), strict=True)


_F_CODE = attrgetter("f_code")
_F_LOCALS = attrgetter("f_locals")


def _frames(thread: int) -> Iterator[FrameType]:
    """Iterate over a thread's frames, innermost first."""
    innermost = islice(map(itemgetter(thread), iter(sys._current_frames, None)), 1)
    # The first is the innermost frame, each other one is "f_back" of the one before.
    frames: Iterator[Any] = accumulate(chain(innermost, repeat("f_back")), getattr)
    return takewhile(partial(is_not, None), frames)


def _is_code(code: CodeType, codes: Iterator[CodeType]) -> Iterator[bool]:
    return map(is_, codes, repeat(code))


def _values(name: str, namespaces: Iterator[dict[str, Any]]) -> Iterator[Any]:
    return map(methodcaller("get", name), namespaces)


# --- garbage collection -----------------------------------------------------------------------

COLLECTS_IN_FRAMES = sys.version_info < (3, 12)
"""Whether this version of Python collects garbage while it creates a frame object."""


class _Pauses:
    """Number of threads that need the pause, and whether collection was enabled before it."""

    def __init__(self) -> None:
        # Reentrant: a finalizer or signal handler may run here while its thread holds the lock.
        self.lock = threading.RLock()
        self.count = 0
        self.was_enabled = False

    def begin(self) -> None:
        with self.lock:
            if not self.count:
                self.was_enabled = gc.isenabled()
                gc.disable()
            self.count += 1

    def end(self) -> None:
        with self.lock:
            self.count -= 1
            if not self.count and self.was_enabled:
                gc.enable()


_pauses = _Pauses()


@contextmanager
def paused_gc() -> Iterator[None]:
    """Disable garbage collection in this process for the block, where this Python needs it."""
    if not COLLECTS_IN_FRAMES:
        yield
        return
    _pauses.begin()
    try:
        yield
    finally:
        _pauses.end()


def _reset_after_fork() -> None:
    global _pauses
    if _pauses.count and _pauses.was_enabled:
        gc.enable()
    _pauses = _Pauses()


if hasattr(os, "register_at_fork"):
    # The threads that paused collection do not exist in the child.
    os.register_at_fork(after_in_child=_reset_after_fork)
