"""Commands in a terminal: encoding, progress, questions, and a stop that ends work cleanly."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from io import TextIOWrapper
from typing import Any, ClassVar, NoReturn, TextIO

from django.core.management.base import BaseCommand, CommandError

from django_agent_sessions.content.dialects import displayable
from django_agent_sessions.exceptions import EncryptionError

_SECONDS = 0.2
_BAR_WIDTH = 24


class ProgressLine:
    """A line that is overwritten; it is written to terminals only."""

    def __init__(self, stream: TextIO, *, wanted: bool = True, total: int | None = None) -> None:
        self._stream, self.total = stream, total
        self._shown = wanted and bool(getattr(stream, "isatty", lambda: False)())
        self._last = 0.0
        self._length = 0

    @property
    def is_shown(self) -> bool:
        """Whether the stream is a terminal, so that a total is worth counting."""
        return self._shown

    def show(self, done: int, words: str) -> None:
        """Show the progress, a few times per second at most."""
        now = time.monotonic()
        if not self._shown or now - self._last < _SECONDS:
            return
        self._last = now
        bar = ""
        if self.total:
            filled = min(_BAR_WIDTH, done * _BAR_WIDTH // self.total)
            bar = f"[{'#' * filled}{'.' * (_BAR_WIDTH - filled)}] {done}/{self.total}, "
        self._write(bar + words)

    def clear(self) -> None:
        """Remove the line."""
        if self._length:
            self._write("")
            self._stream.write("\r")
            self._stream.flush()
            self._length = 0

    def _write(self, line: str) -> None:
        self._stream.write("\r" + line.ljust(self._length))
        self._stream.flush()
        self._length = len(line)


def escape_control_characters(text: str) -> str:
    """Escape line breaks and control characters, so that a terminal does not interpret them."""
    return "".join(
        character if character.isprintable() else ascii(character)[1:-1]
        for character in displayable(text)
    )


def set_encoding(stream: TextIO, **how: str) -> None:
    """Reconfigure the encoding of a process's stream; leave a caller's stream unchanged."""
    if isinstance(stream, TextIOWrapper):
        # Fails on a pipe that replaced a file, which has no position.
        with suppress(OSError):
            stream.reconfigure(**how)  # type: ignore[arg-type] # both options are texts


def pluralize(count: int, what: str) -> str:
    """Return a count with its noun, in the plural if needed."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


INTERRUPTED_STATUS = 130
"""The exit status of shells after Ctrl-C."""

_NO_READER = 141


class StoppableCommand(BaseCommand):
    """A command that explains its state when the user presses Ctrl-C or a key is missing.

    Callers of ``call_command`` get the KeyboardInterrupt, and a CommandError for the key.
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

    def execute(self, *args: Any, **options: Any) -> str | None:
        """Run the command; raise CommandError for content that cannot be decrypted."""
        try:
            return super().execute(*args, **options)
        except EncryptionError as error:
            raise CommandError(str(error)) from error


def end_without_reader(stream: TextIO) -> NoReturn:
    """Exit after the reader of the output has closed the pipe, as ``| head`` does."""
    # Python would flush the buffer at exit and print an error. Not every stream has a fileno.
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    raise SystemExit(_NO_READER)
