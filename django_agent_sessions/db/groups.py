"""Calls that a database thread carries out together: one commit, and one switch of threads.

While a thread works, further calls queue up. If those at the front of the queue can be written
together, the thread takes them all. A call that waits alone is run as any other.
"""

from __future__ import annotations

import contextvars
import functools
import logging
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

if TYPE_CHECKING:
    from django_agent_sessions.db.futures import DatabaseFuture

logger = logging.getLogger("django_agent_sessions")

R = TypeVar("R")

MAX_CALLS = 100
"""Maximum number of calls in a group."""


@dataclass(eq=False)
class GroupedCall(ABC, Generic[R]):
    """A write that can be committed together with others of its kind.

    The methods run in database threads, in the context in which the call was created, but
    :meth:`write_together` in that of none. Calls with the same ``key`` are never in one group: the
    second may depend on what the first learns.
    """

    using: str
    key: Hashable
    context: contextvars.Context = field(default_factory=contextvars.copy_context, init=False)

    @abstractmethod
    def prepare(self) -> bool:
        """Begin the call, and return whether its write can be one of a group."""

    @classmethod
    @abstractmethod
    def write_together(cls, using: str, calls: Sequence[Self]) -> list[bool]:
        """Write what calls prepared in one transaction; False for each that was left out."""

    @abstractmethod
    def run(self) -> R:
        """Carry out what is left of the call, which may be all of it."""

    def fits(self, first: GroupedCall[Any]) -> bool:
        """Return whether the call can be in a group with another one."""
        return self.using == first.using and type(self) is type(first)


def run_together(works: Sequence[DatabaseFuture[Any]]) -> None:
    """Write calls in one transaction, and settle those that were committed; notify none."""
    prepared = [
        (work, call) for work in works if (call := work.call) is not None and _prepare(call)
    ]
    del works
    written = _write([call for _, call in prepared])
    # The error of a call refers to this frame, which must then not refer to the others.
    prepared.reverse()
    written.reverse()
    while prepared:
        work, call = prepared.pop()
        if written.pop():
            work.settle(functools.partial(call.context.run, call.run))
        del work, call


def _prepare(call: GroupedCall[Any]) -> bool:
    try:
        return call.context.run(call.prepare)
    except BaseException:
        # It is raised again when the call is carried out by itself. An error that ended the thread
        # would leave the others waiting.
        return False


def _write(calls: Sequence[GroupedCall[Any]]) -> list[bool]:
    """Return which calls were written; those that were not are carried out alone."""
    if not calls:
        return []
    try:
        return list(calls[0].write_together(calls[0].using, calls))
    except BaseException as error:
        # Each is carried out by itself, and raises its own error. Without the message of this one,
        # which may contain what was to be written.
        logger.info(
            "%d calls could not be committed together (%s), and are committed one by one",
            len(calls),
            type(error).__name__,
        )
        return [False] * len(calls)
