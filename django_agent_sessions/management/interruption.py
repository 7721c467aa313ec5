"""Commands that end cleanly on Ctrl-C and on a closed pipe."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import ClassVar, NoReturn, TextIO

from django.core.management.base import BaseCommand

from django_agent_sessions.management.terminal import set_encoding

INTERRUPTED_STATUS = 130
"""The exit status of shells after Ctrl-C."""

_NO_READER = 141


class StoppableCommand(BaseCommand):
    """A command that explains its state when the user presses Ctrl-C.

    Callers of ``call_command`` get the KeyboardInterrupt.
    """

    stopped: ClassVar[str] = (
        "Stopped. The completed work is kept; run the command again for the rest."
    )
    """The text that is printed after Ctrl-C."""

    def run_from_argv(self, argv: list[str]) -> None:
        """Run the command; exit with 130 on Ctrl-C and with 141 on a closed pipe."""
        # Session ids may contain characters that the encoding of a terminal or of cron lacks.
        set_encoding(sys.stdout, errors="backslashreplace")
        try:
            super().run_from_argv(argv)
            sys.stdout.flush()
        except KeyboardInterrupt:
            self.stderr.write(self.stopped)
            sys.exit(INTERRUPTED_STATUS)
        except BrokenPipeError:
            with suppress(BrokenPipeError):
                self.stderr.write(self.stopped)
            end_without_reader(sys.stdout)


def end_without_reader(stream: TextIO) -> NoReturn:
    """Exit after the reader of the output has closed the pipe, as ``| head`` does."""
    # Python would flush the buffer at exit and print an error. Not every stream has a fileno.
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    raise SystemExit(_NO_READER)
