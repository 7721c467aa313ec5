"""Commands that somebody stops, or whose reader goes away: they end in a sentence or silently."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import ClassVar, NoReturn, TextIO

from django.core.management.base import BaseCommand

from django_agent_sessions.management.terminal import write_letters

STOPPED = 130
"""The exit status that a shell gives what was stopped by Ctrl-C."""

_NO_READER = 141


class StoppableCommand(BaseCommand):
    """A command whose user may press Ctrl-C, and is told in one sentence what that means.

    Whoever calls it from Python gets the ``KeyboardInterrupt``, as of any other function.
    """

    stopped: ClassVar[str] = (
        "Stopped before the end: what was done so far stays, and another run does the rest."
    )
    """What its user is told."""

    def run_from_argv(self, argv: list[str]) -> None:
        """Runs it as the command line says."""
        # A session may be called by what the terminal, or cron's, has no letters for.
        write_letters(sys.stdout, errors="backslashreplace")
        try:
            super().run_from_argv(argv)
            sys.stdout.flush()
        except KeyboardInterrupt:
            self.stderr.write(self.stopped)
            sys.exit(STOPPED)
        except BrokenPipeError:
            with suppress(BrokenPipeError):
                self.stderr.write(self.stopped)
            end_without_reader(sys.stdout)


def end_without_reader(stream: TextIO) -> NoReturn:
    """Ends a command whose output nobody reads any more, as behind ``| head``."""
    # Python would write the rest of its buffer at its end, and complain. What is no file has none.
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    raise SystemExit(_NO_READER)
