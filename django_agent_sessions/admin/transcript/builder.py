"""Conversion of a window of messages into turns, with each tool result beside its call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from django_agent_sessions.content import dialects
from django_agent_sessions.content.dialects import PartKind
from django_agent_sessions.models.fields import CorruptPayload
from django_agent_sessions.queries.message_pages import MessagePage, MessagePreview

from .message_rendering import MessageRenderer
from .text_rendering import MASK, TextRenderer
from .view_models import (
    MIN_GROUPED_CALLS,
    AgentLabel,
    FeedbackViewModel,
    MessageViewModel,
    PartViewModel,
    SpeakerTurn,
    tool_names,
)


def _empty_note(row: MessagePreview) -> str:
    return ""


class TranscriptBuilder:
    """Converts a window of messages into turns."""

    def __init__(
        self,
        voices: Mapping[UUID, AgentLabel],
        note: Callable[[MessagePreview], str] = _empty_note,
        *,
        plain: bool = False,
        hidden: bool = False,
        feedback: Mapping[UUID, Sequence[FeedbackViewModel]] | None = None,
    ) -> None:
        self._voices = voices
        self._feedback = feedback or {}
        self._note = note
        self._wording = TextRenderer(plain=plain)
        self._hidden = hidden

    def turns(self, window: MessagePage) -> list[SpeakerTurn]:
        entries = [self._entry(row) for row in window.rows]
        _attach_results(entries, window)
        turns: list[SpeakerTurn] = []
        for entry in entries:
            _group_calls(entry)
            voice = self._voices.get(entry.row.agent_id) or AgentLabel(
                entry.row.agent_id, "?", "", 0
            )
            role = entry.row.role
            # A message whose results are shown with their calls belongs to the caller's turn.
            silent = not entry.pieces and entry.answered
            last = turns[-1] if turns else None
            if last and last.voice.id == voice.id and (last.role == role or silent):
                last.entries.append(entry)
            else:
                turns.append(SpeakerTurn(voice, role, [entry]))
        return turns

    def payload(self, row: MessagePreview, payload: Any) -> list[PartViewModel]:
        """Convert one payload, such as an original, without marking redactions."""
        return MessageRenderer(row, self._dialect(row), payload, self._wording).pieces()

    def _entry(self, row: MessagePreview) -> MessageViewModel:
        feedback = self._feedback.get(row.id, ())
        entry = MessageViewModel(row, note=self._note(row), feedback=feedback)
        if self._hidden:
            entry.pieces = [PartViewModel("hidden", row.id)]
            return entry
        if not row.read:
            html = self._wording.html(row.head, entry.note or None) if row.head else ""
            entry.pieces = [PartViewModel("large", row.id, html=html, size=row.size)]
            return entry
        dialect = self._dialect(row)
        if entry.note and _is_fully_masked(dialect, row.payload):
            entry.pieces = [PartViewModel("gone", row.id, html=entry.note)]
            return entry
        note = entry.note or None
        entry.pieces = MessageRenderer(row, dialect, row.payload, self._wording, note).pieces()
        return entry

    def _dialect(self, row: MessagePreview) -> str:
        voice = self._voices.get(row.agent_id)
        return voice.dialect if voice else ""


def _is_fully_masked(dialect: str, payload: Any) -> bool:
    if isinstance(payload, CorruptPayload):
        return False
    parts = dialects.get(dialect).parts(payload)
    return bool(parts) and all(
        part.kind is PartKind.TEXT and MASK.fullmatch(part.text.strip()) for part in parts
    )


def _attach_results(entries: Sequence[MessageViewModel], window: MessagePage) -> None:
    """Move each result to its call."""
    waiting: dict[tuple[UUID, str], tuple[PartViewModel, MessageViewModel]] = {}
    for entry in entries:
        remaining: list[PartViewModel] = []
        for piece in entry.pieces:
            if piece.kind == "call":
                if piece.call_id:
                    waiting[entry.row.agent_id, piece.call_id] = (piece, entry)
                remaining.append(piece)
            elif piece.kind == "result":
                call_and_caller = waiting.pop((entry.row.agent_id, piece.call_id), None)
                if call_and_caller is None:
                    piece.counterpart_outside = window.has_earlier
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
        call.counterpart_outside = window.later


def _group_calls(entry: MessageViewModel) -> None:
    """Group long runs of consecutive calls."""
    pieces: list[PartViewModel] = []
    calls: list[PartViewModel] = []
    for piece in [*entry.pieces, None]:
        if piece is not None and piece.kind == "call":
            calls.append(piece)
            continue
        if len(calls) >= MIN_GROUPED_CALLS:
            pieces.append(
                PartViewModel("group", entry.row.id, name=tool_names(calls), contents=calls)
            )
        else:
            pieces.extend(calls)
        calls = []
        if piece is not None:
            pieces.append(piece)
    entry.pieces = pieces
