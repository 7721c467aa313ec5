"""The work that a request may cause: processor time and memory, both checked while it runs.

::

    with limit_work(WorkBudget(seconds=2, memory=64 * 1024 * 1024)):
        redact(session.id, Find(text), reason="", dry_run=True)

Code that searches or decodes content of any size calls :func:`check_work` between pieces of limited
size, because a regular expression cannot be interrupted. Without a budget nothing is limited.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from django_agent_sessions.exceptions import WorkLimitError


class WorkBudget:
    """Limits of the processor time, in seconds, and of the memory, in bytes.

    ``advice`` ends the message of the error: what the user can do instead.
    """

    def __init__(self, seconds: float, memory: int, advice: str = "") -> None:
        self._seconds = seconds
        self._memory = memory
        self._advice = advice
        self._used = 0.0
        self._held = 0
        self._thread = 0
        self._since = 0.0

    def check(self, size: int = 0) -> None:
        """Raise ``WorkLimitError`` if the time is used up, or has no room for ``size`` bytes."""
        now, thread = time.thread_time(), threading.get_ident()
        if thread == self._thread:
            self._used += now - self._since
        self._thread, self._since = thread, now
        if self._used > self._seconds:
            raise WorkLimitError(
                f"this takes more than {self._seconds:g} seconds of processor time. {self._advice}"
            )
        if self._held + size > self._memory:
            raise WorkLimitError(
                f"this needs more than {self._memory / 1024 / 1024:.0f} MB of memory. "
                f"{self._advice}"
            )

    def hold(self, size: int) -> None:
        """Count bytes that are kept until the work ends."""
        self.check(size)
        self._held += size


_current: ContextVar[WorkBudget | None] = ContextVar("agent_sessions_work", default=None)


@contextmanager
def limit_work(budget: WorkBudget | None) -> Iterator[None]:
    """Apply a budget to the work in the block; None leaves it as it is."""
    if budget is None:
        yield
        return
    token = _current.set(budget)
    try:
        budget.check()
        yield
    finally:
        _current.reset(token)


def is_work_limited() -> bool:
    """Return whether there is a budget."""
    return _current.get() is not None


def check_work(size: int = 0) -> None:
    """Raise ``WorkLimitError`` if the budget is used up, or has no room for ``size`` bytes."""
    if (budget := _current.get()) is not None:
        budget.check(size)


def hold_work(size: int) -> None:
    """Count bytes that are kept until the work ends."""
    if (budget := _current.get()) is not None:
        budget.hold(size)
