"""The steps of a scrub: SQL that is printed or run, in sections that may lack privileges."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from django.db import DatabaseError
from django.db.backends.utils import CursorWrapper

from django_agent_sessions.db.db_errors import is_missing_privilege

_PAUSE = 0.1


@dataclass(frozen=True, slots=True)
class Options:
    """What a scrub may do."""

    timeout: int
    """Seconds to wait for locks, and for transactions that are open."""
    logs: bool = True
    binary_logs: bool = False


class ScrubError(Exception):
    """A step failed; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Step:
    """One statement, or a comment that describes what ``action`` does.

    ``action`` is called instead of running the statement and returns what it left, if anything.
    """

    statement: str
    action: Callable[[CursorWrapper], str] | None = None

    def run(self, cursor: CursorWrapper) -> str:
        """Run it and return what is left."""
        if self.action is not None:
            return self.action(cursor)
        cursor.execute(self.statement)
        return ""


@dataclass(frozen=True, slots=True)
class Section:
    """Steps that belong together."""

    steps: Iterable[Step]
    optional: str = ""
    """What is left if the user may not run a step; empty if the section is required."""
    finally_: tuple[Step, ...] = ()
    """Run in any case, once the section was begun."""

    @property
    def all_steps(self) -> tuple[Step, ...]:
        return (*self.steps, *self.finally_)

    def run(self, cursor: CursorWrapper) -> Iterator[tuple[Step, str]]:
        """Run the steps; yield each one with what it left."""
        step = None
        try:
            for step in self.steps:
                yield step, step.run(cursor)
        except DatabaseError as error:
            if step is None or not (self.optional and is_missing_privilege(error)):
                raise
            yield step, f"{self.optional}: the user may not run {step.statement!r}"
        finally:
            for last in self.finally_:
                last.run(cursor)


def wait_until(is_done: Callable[[], bool], timeout: float) -> bool:
    """Wait for a condition; return whether it was met in time."""
    deadline = time.monotonic() + timeout
    while not is_done():
        if time.monotonic() > deadline:
            return False
        time.sleep(_PAUSE)
    return True
