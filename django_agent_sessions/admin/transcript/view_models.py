"""The view models of a session's page; ``turns`` and ``contents`` build them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby
from typing import NamedTuple
from uuid import UUID

from django.utils import formats
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from django_agent_sessions.content.paths import Path, path_to_json
from django_agent_sessions.queries.message_pages import MessagePreview

MIN_GROUPED_CALLS = 4
"""The fewest consecutive calls that are folded."""


@dataclass(frozen=True, slots=True)
class AgentLabel:
    """An agent, with the colour that distinguishes it on the page."""

    id: UUID
    name: str
    dialect: str
    colour: int
    """Index of a colour of the style sheet; the name is always shown, too."""


@dataclass(slots=True)
class PartViewModel:
    kind: str
    """``text``, ``reasoning``, ``call``, ``group``, ``image``, ``file``, ``data``, ``output``,
    ``large``, ``corrupt``, ``hidden``, ``fully_redacted``, ``empty``."""

    message: UUID
    path: Path = ()
    html: SafeString | str = ""
    name: str = ""
    cut: int = 0
    """Characters of the full text if it is shortened, else 0."""

    scrolls: bool = False
    """Whether it is shown in a scrolling box."""

    media_type: str = ""
    size: int | None = None
    host: str = ""
    url: str = ""
    tree: SafeString | str = ""
    citations: list[tuple[str, str]] = field(default_factory=list)
    status: str = ""
    call_id: str = ""
    duration: timedelta | None = None
    result: PartViewModel | None = None
    contents: list[PartViewModel] = field(default_factory=list)
    counterpart_outside: bool = False
    """Whether the call or result that belongs to it may be outside of the window."""

    @property
    def address(self) -> str:
        return path_to_json(self.path)

    @property
    def seconds(self) -> str:
        """The duration of the call, formatted."""
        if self.duration is None:
            return ""
        seconds = self.duration.total_seconds()
        if seconds >= 60:
            return _("%(minutes)d min %(seconds)d s") % {
                "minutes": seconds // 60,
                "seconds": seconds % 60,
            }
        return _("%(seconds)s s") % {"seconds": formats.number_format(seconds, 1)}


@dataclass(frozen=True, slots=True)
class FeedbackViewModel:
    value: str
    """``good``, ``bad`` or ``neutral``."""

    user: str
    source: str
    moment: datetime
    comment: str
    """Empty if there is none, or if the viewer may not read it."""

    hidden: bool
    """Whether there is a comment that the viewer may not read."""


@dataclass(slots=True)
class MessageViewModel:
    row: MessagePreview
    pieces: list[PartViewModel] = field(default_factory=list)
    answered: int = 0
    """Number of its results that are shown with their calls, in other messages."""

    note: str = ""
    """For a redacted message: when, by whom and why it was redacted."""

    feedback: Sequence[FeedbackViewModel] = ()

    @property
    def fully_redacted(self) -> bool:
        """Whether the redaction note replaces the content."""
        return any(piece.kind == "gone" for piece in self.pieces)


class MessageGroup(NamedTuple):
    """Consecutive messages of a turn; several messages with tool calls only are folded."""

    entries: list[MessageViewModel]
    calls: Sequence[PartViewModel] = ()
    """The calls, if the messages are folded."""


@dataclass(slots=True)
class SpeakerTurn:
    """Consecutive messages of one speaker."""

    voice: AgentLabel
    role: str
    entries: list[MessageViewModel] = field(default_factory=list)

    @property
    def silent(self) -> bool:
        """Whether all its content is shown elsewhere, as results of calls."""
        return not any(entry.pieces for entry in self.entries)

    @property
    def groups(self) -> list[MessageGroup]:
        """The messages, grouped into those with tool calls only and others."""
        groups: list[MessageGroup] = []
        for only_calls, group in groupby(self.entries, key=_has_only_calls):
            entries = list(group)
            calls = [piece for entry in entries for piece in entry.pieces]
            if only_calls and len(entries) > 1 and len(calls) >= MIN_GROUPED_CALLS:
                groups.append(MessageGroup(entries, calls))
            else:
                groups.append(MessageGroup(entries))
        return groups

    @property
    def began(self) -> datetime:
        return self.entries[0].row.created_at


def _has_only_calls(entry: MessageViewModel) -> bool:
    return all(piece.kind == "call" for piece in entry.pieces)
