"""Terminal output of commands: a progress line and safe texts."""

from __future__ import annotations

import time
from contextlib import suppress
from io import TextIOWrapper
from typing import TextIO

from django_agent_sessions.content.dialects import displayable

_SECONDS = 0.2
_BAR_WIDTH = 24


class ProgressLine:
    """A line that is overwritten; it is written to terminals only."""

    def __init__(self, stream: TextIO, *, wanted: bool = True, total: int | None = None) -> None:
        self._stream, self._total = stream, total
        self._shown = wanted and bool(getattr(stream, "isatty", lambda: False)())
        self._last = 0.0
        self._length = 0

    def show(self, done: int, words: str) -> None:
        """Show the progress, a few times per second at most."""
        now = time.monotonic()
        if not self._shown or now - self._last < _SECONDS:
            return
        self._last = now
        bar = ""
        if self._total:
            filled = min(_BAR_WIDTH, done * _BAR_WIDTH // self._total)
            bar = f"[{'#' * filled}{'.' * (_BAR_WIDTH - filled)}] {done}/{self._total}, "
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
