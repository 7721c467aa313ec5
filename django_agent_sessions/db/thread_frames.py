"""Read what a thread of this process is doing, without holding a reference to its frames.

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
from operator import attrgetter, is_, is_not, itemgetter
from types import CodeType
from typing import Any

_F_CODE = attrgetter("f_code")
_F_LOCALS = attrgetter("f_locals")


def local_variables(thread: int, code: CodeType, *names: str) -> list[Any]:
    """Read local variables of the calls of a function on a thread's stack, innermost call first.

    Of several names, the values of a call are a tuple. The variables must be assigned only once:
    before Python 3.13 a frame keeps the values that were read first. If one is not assigned yet,
    the result is empty.
    """
    with paused_gc():
        try:
            # Not assigned to a name: the iterators hold the frames until they are freed.
            return list(map(itemgetter(*names), _namespaces(thread, code)))
        except KeyError:
            # The thread has ended, or has not assigned a variable.
            return []


def _namespaces(thread: int, code: CodeType) -> Iterator[dict[str, Any]]:
    """Iterate over the local variables of a function's calls."""
    innermost = islice(map(itemgetter(thread), iter(sys._current_frames, None)), 1)
    # The first is the innermost frame, each other one is "f_back" of the one before.
    frames: Iterator[Any] = accumulate(chain(innermost, repeat("f_back")), getattr)
    frames, again = tee(takewhile(partial(is_not, None), frames))
    calls = compress(frames, map(is_, map(_F_CODE, again), repeat(code)))
    return map(_F_LOCALS, calls)


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
