"""Calls that a database thread carries out together: one commit, and one switch of threads.

While a thread works, further calls queue up. If those at the front of the queue can be written
together, the thread takes them all. A call that waits alone is run as any other.
"""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from django_agent_sessions.db.futures import DatabaseFuture

W = TypeVar("W")
D = TypeVar("D")
R = TypeVar("R")

MAX_CALLS = 100
"""Maximum number of calls in a group."""


class GroupedCall(Generic[W, D, R]):
    """A write that can be committed together with others of its kind.

    The functions run in database threads, in the context in which the call was created. ``write``
    writes what several calls have prepared, in one transaction: then ``finish`` takes the outcome.
    If nothing was written, or it is unknown, ``leave`` is called, and ``alone`` carries out the
    call by itself. Calls with the same ``key`` are never in one group, so that they stay in order.
    """

    __slots__ = ("alone", "context", "finish", "key", "leave", "prepare", "using", "write")

    def __init__(
        self,
        using: str,
        key: Hashable,
        *,
        prepare: Callable[[], W | None],
        write: Callable[[str, Sequence[W]], Sequence[D | None]],
        finish: Callable[[D], R],
        leave: Callable[[bool], None],
        alone: Callable[[], R],
    ) -> None:
        self.using = using
        self.key = key
        self.prepare = prepare
        self.write = write
        self.finish = finish
        self.leave = leave
        self.alone = alone
        self.context = contextvars.copy_context()

    def fits(self, first: GroupedCall[Any, Any, Any]) -> bool:
        """Return whether the call can be in a group with another one."""
        return self.using == first.using and self.write == first.write


def run_together(works: Sequence[DatabaseFuture[Any]]) -> None:
    """Write calls in one transaction, and settle those that were committed; notify none."""
    prepared = [
        (work, call, written)
        for work in works
        if (call := work.call) is not None and (written := _prepare(call)) is not None
    ]
    outcomes = _write([(call, written) for _, call, written in prepared])
    del works
    # The error of a call refers to this frame, which must then not refer to the others.
    prepared.reverse()
    while prepared:
        work, call, _ = prepared.pop()
        outcome = outcomes.pop()
        if outcome is not None:
            work.settle(functools.partial(call.context.run, call.finish, outcome))
        del work, call, outcome, _


def _prepare(call: GroupedCall[Any, Any, Any]) -> Any:
    try:
        return call.context.run(call.prepare)
    except Exception:
        # It is raised again when the call is carried out by itself.
        return None


def _write(prepared: Sequence[tuple[GroupedCall[Any, Any, Any], Any]]) -> list[Any]:
    """Return the outcomes in reverse order; None where a call has to be carried out by itself."""
    if not prepared:
        return []
    call, _ = prepared[0]
    failed = False
    outcomes: list[Any] = [None] * len(prepared)
    try:
        outcomes = list(call.write(call.using, [written for _, written in prepared]))
    except Exception:
        # Each is carried out by itself, and raises its own error.
        failed = True
    for (call, _), outcome in zip(prepared, outcomes, strict=True):
        if outcome is None:
            call.context.run(call.leave, failed)
    return outcomes[::-1]
