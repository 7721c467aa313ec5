"""Pause garbage collection while another thread's stack is read.

Python 3.11 may collect garbage while it creates a frame object. If a finalizer then lets the other
thread run, its frame may be freed before the object is complete, and the process crashes. Python
3.12 and later collect garbage only between two instructions.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

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
