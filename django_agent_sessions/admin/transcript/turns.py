"""A window of messages as a conversation: who spoke, and each tool call with its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from django_agent_sessions import transcripts
from django_agent_sessions.fields import CorruptPayload
from django_agent_sessions.transcripts import PartKind
from django_agent_sessions.windows import Row, Window

from .contents import Contents
from .pieces import GROUPED, Entry, Piece, Turn, Voice, tool_names
from .wording import MASK, Wording


def _no_note(row: Row) -> str:
    return ""


class Reading:
    """Reads a window into turns."""

    def __init__(
        self,
        voices: Mapping[UUID, Voice],
        note: Callable[[Row], str] = _no_note,
        *,
        plain: bool = False,
        hidden: bool = False,
    ) -> None:
        self._voices = voices
        self._note = note
        self._wording = Wording(plain=plain)
        self._hidden = hidden

    def turns(self, window: Window) -> list[Turn]:
        """Reads the messages."""
        entries = [self._entry(row) for row in window.rows]
        _pair(entries, window)
        found: list[Turn] = []
        for entry in entries:
            _fold(entry)
            voice = self._voices.get(entry.row.agent_id) or Voice(entry.row.agent_id, "?", "", 0)
            role = entry.row.role
            # Results that stand with their calls belong to the one who called.
            silent = not entry.pieces and entry.answered
            last = found[-1] if found else None
            if last and last.voice.id == voice.id and (last.role == role or silent):
                last.entries.append(entry)
            else:
                found.append(Turn(voice, role, [entry]))
        return found

    def payload(self, row: Row, payload: Any) -> list[Piece]:
        """Reads one payload, such as an original, without its redaction's chips."""
        return Contents(row, self._dialect(row), payload, self._wording).pieces()

    def _entry(self, row: Row) -> Entry:
        entry = Entry(row, note=self._note(row))
        if self._hidden:
            entry.pieces = [Piece("hidden", row.id)]
            return entry
        if not row.read:
            html = self._wording.html(row.head, entry.note or None) if row.head else ""
            entry.pieces = [Piece("large", row.id, html=html, size=row.size)]
            return entry
        dialect = self._dialect(row)
        if entry.note and _wholly_masked(dialect, row.payload):
            entry.pieces = [Piece("gone", row.id, html=entry.note)]
            return entry
        note = entry.note or None
        entry.pieces = Contents(row, dialect, row.payload, self._wording, note).pieces()
        return entry

    def _dialect(self, row: Row) -> str:
        voice = self._voices.get(row.agent_id)
        return voice.dialect if voice else ""


def _wholly_masked(dialect: str, payload: Any) -> bool:
    if isinstance(payload, CorruptPayload):
        return False
    parts = transcripts.parts(dialect, payload)
    return bool(parts) and all(
        part.kind is PartKind.TEXT and MASK.fullmatch(part.text.strip()) for part in parts
    )


def _pair(entries: Sequence[Entry], window: Window) -> None:
    """Puts each result beside its call."""
    waiting: dict[tuple[UUID, str], tuple[Piece, Entry]] = {}
    for entry in entries:
        kept: list[Piece] = []
        for piece in entry.pieces:
            if piece.kind == "call":
                if piece.call_id:
                    waiting[entry.row.agent_id, piece.call_id] = (piece, entry)
                kept.append(piece)
            elif piece.kind == "result":
                found = waiting.pop((entry.row.agent_id, piece.call_id), None)
                if found is None:
                    piece.outside = window.earlier
                    kept.append(piece)
                    continue
                call, caller = found
                call.result, call.status = piece, piece.status or call.status
                if caller is not entry:
                    call.duration = entry.row.created_at - caller.row.created_at
                    entry.answered += 1
            else:
                kept.append(piece)
        entry.pieces = kept
    for call, _entry in waiting.values():
        call.outside = window.later


def _fold(entry: Entry) -> None:
    """Puts many calls in a row under one line."""
    folded: list[Piece] = []
    row: list[Piece] = []
    for piece in [*entry.pieces, None]:
        if piece is not None and piece.kind == "call":
            row.append(piece)
            continue
        if len(row) >= GROUPED:
            folded.append(Piece("group", entry.row.id, name=tool_names(row), contents=row))
        else:
            folded.extend(row)
        row = []
        if piece is not None:
            folded.append(piece)
    entry.pieces = folded
