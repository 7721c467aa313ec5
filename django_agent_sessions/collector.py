"""The garbage collector, which must not run while another thread's stack is read.

Python 3.11 collects garbage while it makes the object for a frame. Where a finalizer then lets the
other thread go on, its frame may be gone when the object is ready, and the process crashes. From
3.12 on garbage is collected between two instructions only.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

CRASHES = sys.version_info < (3, 12)
"""Whether this version of Python collects garbage while it makes a frame."""


class _Pauses:
    """How many threads need the collector to rest, and whether it ran before the first did."""

    def __init__(self) -> None:
        # A finalizer or a signal's handler may come here while its own thread has it.
        self.lock = threading.RLock()
        self.count = 0
        self.ran = False

    def begin(self) -> None:
        with self.lock:
            if not self.count:
                self.ran = gc.isenabled()
                gc.disable()
            self.count += 1

    def end(self) -> None:
        with self.lock:
            self.count -= 1
            if not self.count and self.ran:
                gc.enable()


_pauses = _Pauses()


@contextmanager
def resting() -> Iterator[None]:
    """Lets nothing be collected in this process meanwhile, where that is needed."""
    if not CRASHES:
        yield
        return
    _pauses.begin()
    try:
        yield
    finally:
        _pauses.end()


def _forget_other_threads() -> None:
    global _pauses
    if _pauses.count and _pauses.ran:
        gc.enable()
    _pauses = _Pauses()


if hasattr(os, "register_at_fork"):
    # Those that looked at stacks are not in the child.
    os.register_at_fork(after_in_child=_forget_other_threads)
