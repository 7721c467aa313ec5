"""What commands show of long work: a line that grows, where somebody looks at it."""

from __future__ import annotations

import time
from contextlib import suppress
from io import TextIOWrapper
from typing import TextIO

from django_agent_sessions.transcripts import displayable

_SECONDS = 0.2
_WIDTH = 24


class ProgressLine:
    """A line on a terminal that is written over; nothing anywhere else."""

    def __init__(self, stream: TextIO, *, wanted: bool = True, total: int | None = None) -> None:
        self._stream, self._total = stream, total
        self._shown = wanted and bool(getattr(stream, "isatty", lambda: False)())
        self._last = 0.0
        self._length = 0

    def show(self, done: int, words: str) -> None:
        """Shows how far it came, some times a second at the most."""
        now = time.monotonic()
        if not self._shown or now - self._last < _SECONDS:
            return
        self._last = now
        bar = ""
        if self._total:
            full = min(_WIDTH, done * _WIDTH // self._total)
            bar = f"[{'#' * full}{'.' * (_WIDTH - full)}] {done}/{self._total}, "
        self._write(bar + words)

    def clear(self) -> None:
        """Takes the line away."""
        if self._length:
            self._write("")
            self._stream.write("\r")
            self._stream.flush()
            self._length = 0

    def _write(self, line: str) -> None:
        self._stream.write("\r" + line.ljust(self._length))
        self._stream.flush()
        self._length = len(line)


def printable(text: str) -> str:
    """Makes a text one line that no terminal obeys."""
    return "".join(
        character if character.isprintable() else ascii(character)[1:-1]
        for character in displayable(text)
    )


def write_letters(stream: TextIO, **how: str) -> None:
    """Changes how an output writes letters, where it is one of the process and not a caller's."""
    if isinstance(stream, TextIOWrapper):
        # A pipe that came into the place of a file cannot be asked how far it was written.
        with suppress(OSError):
            stream.reconfigure(**how)  # type: ignore[arg-type] # texts are what it takes


def counted(count: int, what: str) -> str:
    """Says how many there are."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
