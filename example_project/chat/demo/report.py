"""How the demonstration speaks to the person who runs it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import Any

from django.core.management.base import CommandError

from .transcript import Block, Conversation

_WIDTH = 88
_ROLE_WIDTH = 10


class Report:
    """Writes what happens, in short lines.

    Args:
        out: A stream with ``write``, such as a command's ``stdout``.
    """

    def __init__(self, out: Any) -> None:
        self._out = out

    def heading(self, text: str) -> None:
        """Begins a section."""
        self.line(f"\n{text}\n{'-' * len(text)}")

    def line(self, text: str = "") -> None:
        """Writes a line, at once even into a pipe."""
        self._out.write(f"{text}\n")
        self._out.flush()

    def read_texts(self, who: str, text: str) -> None:
        """Writes what somebody said or did, wrapped behind the name."""
        label = f"  {who:<{_ROLE_WIDTH}} "
        rest = " " * len(label)
        for index, line in enumerate(text.splitlines() or [""]):
            self.line(
                textwrap.fill(
                    line,
                    _WIDTH,
                    initial_indent=rest if index else label,
                    subsequent_indent=rest,
                )
            )

    def conversation(self, conversation: Conversation) -> None:
        """Writes a transcript."""
        for message in conversation.messages:
            who = message.role or "?"
            for block in message.blocks:
                for text in _lines(block):
                    self.read_texts(who, text + (" (redacted)" if message.redacted else ""))
                    who = ""
        if conversation.state:
            self.read_texts("state", conversation.state)

    def promise(self, kept: bool, text: str) -> None:
        """Writes a promise that was kept.

        Args:
            kept: Whether it was.
            text: The promise.

        Raises:
            CommandError: It was not.
        """
        if not kept:
            raise CommandError(f"This should hold, and does not: {text}")
        self.read_texts("  ok", text)


def _lines(block: Block) -> Iterable[str]:
    if block.kind == "text":
        return [block.text]
    return [f"{block.label} -> {block.text}"]
