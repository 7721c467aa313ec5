"""Commands that somebody stops, or whose reader goes away: they end in a sentence or silently."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn, TextIO

from django.core.management.base import CommandError

STOPPED = 130
"""The status of what Ctrl-C stopped, as shells have it."""

_NO_READER = 141


@contextmanager
def stoppable(words: str) -> Iterator[None]:
    """Ends a command that is stopped by Ctrl-C with a sentence, and not with a traceback.

    Args:
        words: What was stopped, and what to do to go on.

    Raises:
        CommandError: It was stopped.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise CommandError(words, returncode=STOPPED) from None


def end_without_reader(stream: TextIO) -> NoReturn:
    """Ends a command whose output nobody reads any more, as behind ``| head``.

    Args:
        stream: The output.

    Raises:
        SystemExit: Always, with the status that shells give to such a program.
    """
    # Python would write the rest of its buffer at its end, and complain. What is no file has none.
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    raise SystemExit(_NO_READER)
