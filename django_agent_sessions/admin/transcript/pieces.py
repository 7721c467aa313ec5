"""What the page of a session is made of: turns of a speaker, their messages, and what is in them.

These are what the templates see; ``turns`` and ``contents`` make them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby
from uuid import UUID

from django.utils import formats
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from django_agent_sessions.references import Path
from django_agent_sessions.transcripts.blocks import address_of
from django_agent_sessions.windows import Row

GROUPED = 4
"""Calls in a row, from how many on they are folded under one line."""


@dataclass(frozen=True, slots=True)
class Voice:
    """An agent of the session, as a reader tells it from the others."""

    id: UUID
    name: str
    dialect: str
    colour: int
    """Number of one of the colours of the style sheet; the name is always shown beside it."""


@dataclass(slots=True)
class Piece:
    """One thing that a message holds, as a template shows it."""

    kind: str
    """``text``, ``reasoning``, ``call``, ``group``, ``image``, ``file``, ``data``, ``output``,
    ``large``, ``corrupt``, ``hidden``, ``gone``, ``empty``."""

    message: UUID
    path: Path = ()
    html: SafeString | str = ""
    name: str = ""
    cut: int = 0
    """Characters of the whole text, if not all of it is shown."""

    tall: bool = False
    """Whether it is so long that it scrolls in a box of its own."""

    media_type: str = ""
    size: int | None = None
    host: str = ""
    url: str = ""
    inline: bool = False
    tree: SafeString | str = ""
    citations: list[tuple[str, str]] = field(default_factory=list)
    status: str = ""
    call_id: str = ""
    duration: timedelta | None = None
    result: Piece | None = None
    contents: list[Piece] = field(default_factory=list)
    outside: bool = False
    """Whether the other half of a call may stand in a part that is not shown."""

    @property
    def address(self) -> str:
        """The path as JSON, for a link or an attribute."""
        return address_of(self.path)

    @property
    def seconds(self) -> str:
        """How long the call took, for people."""
        if self.duration is None:
            return ""
        seconds = self.duration.total_seconds()
        if seconds >= 60:
            return _("%(minutes)d min %(seconds)d s") % {
                "minutes": seconds // 60,
                "seconds": seconds % 60,
            }
        return _("%(seconds)s s") % {"seconds": formats.number_format(seconds, 1)}

    @property
    def errors(self) -> int:
        """How many calls of a group failed."""
        return sum(piece.status == "error" for piece in self.contents)


@dataclass(slots=True)
class Entry:
    """A message and its pieces."""

    row: Row
    pieces: list[Piece] = field(default_factory=list)
    answered: int = 0
    """How many results of it are shown with their calls, in other messages."""

    note: str = ""
    """For a redacted message: when, by whom and why."""

    @property
    def gone(self) -> bool:
        """Whether nothing is left, so that the note stands in its place."""
        return any(piece.kind == "gone" for piece in self.pieces)


@dataclass(slots=True)
class Stretch:
    """Messages of a turn that stand together; many that only call tools are folded."""

    entries: list[Entry]
    calls: list[Piece] = field(default_factory=list)
    """The calls of those that are folded; else none."""

    @property
    def names(self) -> str:
        """Which tools were called, and how often."""
        return tool_names(self.calls)

    @property
    def errors(self) -> int:
        """How many of the calls failed."""
        return sum(piece.status == "error" for piece in self.calls)


@dataclass(slots=True)
class Turn:
    """What one speaker said in a row."""

    voice: Voice
    role: str
    entries: list[Entry] = field(default_factory=list)

    @property
    def silent(self) -> bool:
        """Whether nothing is left of it but results that stand with their calls."""
        return not any(entry.pieces for entry in self.entries)

    @property
    def stretches(self) -> list[Stretch]:
        """The messages, with those that only call tools put together."""
        found: list[Stretch] = []
        for works, together in groupby(self.entries, key=_only_works):
            entries = list(together)
            calls = [piece for entry in entries for piece in entry.pieces]
            if works and len(entries) > 1 and len(calls) >= GROUPED:
                found.append(Stretch(entries, calls))
            else:
                found.append(Stretch(entries))
        return found

    @property
    def began(self) -> datetime:
        """When it began."""
        return self.entries[0].row.created_at


def tool_names(calls: Sequence[Piece]) -> str:
    """Names the tools of some calls, the most used first."""
    names = Counter(call.name for call in calls).most_common()
    return ", ".join(f"{name} ×{count}" if count > 1 else name for name, count in names)


def _only_works(entry: Entry) -> bool:
    return all(piece.kind == "call" for piece in entry.pieces)
