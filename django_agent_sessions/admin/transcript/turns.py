"""Conversion of a window of messages into turns, with each tool result beside its call."""

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


def _empty_note(row: Row) -> str:
    return ""


class Reading:
    """Converts a window of messages into turns."""

    def __init__(
        self,
        voices: Mapping[UUID, Voice],
        note: Callable[[Row], str] = _empty_note,
        *,
        plain: bool = False,
        hidden: bool = False,
    ) -> None:
        self._voices = voices
        self._note = note
        self._wording = Wording(plain=plain)
        self._hidden = hidden

    def turns(self, window: Window) -> list[Turn]:
        entries = [self._entry(row) for row in window.rows]
        _attach_results(entries, window)
        turns: list[Turn] = []
        for entry in entries:
            _group_calls(entry)
            voice = self._voices.get(entry.row.agent_id) or Voice(entry.row.agent_id, "?", "", 0)
            role = entry.row.role
            # A message whose results are shown with their calls belongs to the caller's turn.
            silent = not entry.pieces and entry.answered
            last = turns[-1] if turns else None
            if last and last.voice.id == voice.id and (last.role == role or silent):
                last.entries.append(entry)
            else:
                turns.append(Turn(voice, role, [entry]))
        return turns

    def payload(self, row: Row, payload: Any) -> list[Piece]:
        """Convert one payload, such as an original, without marking redactions."""
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
        if entry.note and _is_fully_masked(dialect, row.payload):
            entry.pieces = [Piece("gone", row.id, html=entry.note)]
            return entry
        note = entry.note or None
        entry.pieces = Contents(row, dialect, row.payload, self._wording, note).pieces()
        return entry

    def _dialect(self, row: Row) -> str:
        voice = self._voices.get(row.agent_id)
        return voice.dialect if voice else ""


def _is_fully_masked(dialect: str, payload: Any) -> bool:
    if isinstance(payload, CorruptPayload):
        return False
    parts = transcripts.parts(dialect, payload)
    return bool(parts) and all(
        part.kind is PartKind.TEXT and MASK.fullmatch(part.text.strip()) for part in parts
    )


def _attach_results(entries: Sequence[Entry], window: Window) -> None:
    """Move each result to its call."""
    waiting: dict[tuple[UUID, str], tuple[Piece, Entry]] = {}
    for entry in entries:
        remaining: list[Piece] = []
        for piece in entry.pieces:
            if piece.kind == "call":
                if piece.call_id:
                    waiting[entry.row.agent_id, piece.call_id] = (piece, entry)
                remaining.append(piece)
            elif piece.kind == "result":
                call_and_caller = waiting.pop((entry.row.agent_id, piece.call_id), None)
                if call_and_caller is None:
                    piece.outside = window.earlier
                    remaining.append(piece)
                    continue
                call, caller = call_and_caller
                call.result, call.status = piece, piece.status or call.status
                if caller is not entry:
                    call.duration = entry.row.created_at - caller.row.created_at
                    entry.answered += 1
            else:
                remaining.append(piece)
        entry.pieces = remaining
    for call, _entry in waiting.values():
        call.outside = window.later


def _group_calls(entry: Entry) -> None:
    """Group long runs of consecutive calls."""
    pieces: list[Piece] = []
    calls: list[Piece] = []
    for piece in [*entry.pieces, None]:
        if piece is not None and piece.kind == "call":
            calls.append(piece)
            continue
        if len(calls) >= GROUPED:
            pieces.append(Piece("group", entry.row.id, name=tool_names(calls), contents=calls))
        else:
            pieces.extend(calls)
        calls = []
        if piece is not None:
            pieces.append(piece)
    entry.pieces = pieces
