"""Calls that a database thread carries out together: one commit, and one switch of threads.

While a thread works, further calls queue up. If those at the front of the queue can be written
together, the thread takes them all. A call that waits alone is run as any other.
"""

from __future__ import annotations

import contextvars
import functools
import logging
from collections.abc import Callable, Hashable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from django_agent_sessions.db.futures import DatabaseFuture

logger = logging.getLogger("django_agent_sessions")

W = TypeVar("W")
D = TypeVar("D")
R = TypeVar("R")

MAX_CALLS = 100
"""Maximum number of calls in a group."""


@dataclass(eq=False, slots=True)
class GroupedCall(Generic[W, D, R]):
    """A write that can be committed together with others of its kind.

    The functions run in database threads, in the context in which the call was created. ``write``
    writes what several calls have prepared, in one transaction: then ``finish`` takes the outcome.
    If nothing was written, or it is unknown, ``leave`` is called, and ``alone`` carries out the
    call by itself. Calls with the same ``key`` are never in one group, so that they stay in order.
    """

    using: str
    key: Hashable
    _: KW_ONLY
    prepare: Callable[[], W | None]
    write: Callable[[str, Sequence[W]], Sequence[D | None]]
    finish: Callable[[D], R]
    leave: Callable[[bool], None]
    alone: Callable[[], R]
    context: contextvars.Context = field(init=False, default_factory=contextvars.copy_context)

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
    outcomes, failed = _write([(call, written) for _, call, written in prepared])
    left = [
        call for (_, call, _), outcome in zip(prepared, outcomes, strict=True) if outcome is None
    ]
    del works
    # The error of a call refers to this frame, which must then not refer to the others.
    prepared.reverse()
    outcomes.reverse()
    while prepared:
        work, call, _ = prepared.pop()
        outcome = outcomes.pop()
        if outcome is not None:
            work.settle(functools.partial(call.context.run, call.finish, outcome))
        del work, call, outcome, _
    # Last: an error here must not make a call that was committed run again.
    for call in left:
        call.context.run(call.leave, failed)


def _prepare(call: GroupedCall[Any, Any, Any]) -> Any:
    try:
        return call.context.run(call.prepare)
    except BaseException:
        # It is raised again when the call is carried out by itself. An error that ended the thread
        # would leave the others waiting.
        return None


def _write(prepared: Sequence[tuple[GroupedCall[Any, Any, Any], Any]]) -> tuple[list[Any], bool]:
    """Return the outcomes, None for calls to be carried out alone, and whether the write failed."""
    if not prepared:
        return [], False
    call, _ = prepared[0]
    try:
        return list(call.write(call.using, [written for _, written in prepared])), False
    except BaseException as error:
        # Each is carried out by itself, and raises its own error. Without the message of this one,
        # which may contain what was to be written.
        logger.info(
            "%d calls could not be committed together (%s), and are committed one by one",
            len(prepared),
            type(error).__name__,
        )
        return [None] * len(prepared), True
