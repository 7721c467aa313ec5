"""Conversion of messages into what a page shows: turns, with each tool result beside its call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from django.utils.translation import gettext as _

from django_agent_sessions.content import dialects
from django_agent_sessions.content.blob_refs import BlobRef
from django_agent_sessions.content.dialects import Part, PartKind, TranscriptBlock, displayable
from django_agent_sessions.content.dialects.media import DISPLAYABLE_TYPES, image_type
from django_agent_sessions.content.dialects.parts import cited_url
from django_agent_sessions.content.exact_json import without_hashes
from django_agent_sessions.models.fields import CorruptPayload
from django_agent_sessions.queries.message_pages import MessagePage, MessagePreview

from .json_tree import tree
from .text_rendering import MASK, MAX_SHOWN_CHARACTERS, TextRenderer
from .view_models import (
    MIN_GROUPED_CALLS,
    AgentLabel,
    FeedbackViewModel,
    MessageViewModel,
    PartViewModel,
    SpeakerTurn,
)

_SCROLL_FROM = 5000
_MAX_RESULT = 6000
_SCROLL_RESULT_FROM = 1500


def _empty_note(row: MessagePreview) -> str:
    return ""


class TranscriptBuilder:
    def __init__(
        self,
        labels: Mapping[UUID, AgentLabel],
        note: Callable[[MessagePreview], str] = _empty_note,
        *,
        plain: bool = False,
        hidden: bool = False,
        feedback: Mapping[UUID, Sequence[FeedbackViewModel]] | None = None,
    ) -> None:
        self._labels = labels
        self._feedback = feedback or {}
        self._note = note
        self._renderer = TextRenderer(plain=plain)
        self._hidden = hidden

    def turns(self, window: MessagePage) -> list[SpeakerTurn]:
        entries = [self._entry(row) for row in window.rows]
        _attach_results(entries, window)
        turns: list[SpeakerTurn] = []
        for entry in entries:
            _group_calls(entry)
            voice = self._labels.get(entry.row.agent_id) or AgentLabel(
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

    def _entry(self, row: MessagePreview) -> MessageViewModel:
        feedback = self._feedback.get(row.id, ())
        entry = MessageViewModel(row, note=self._note(row), feedback=feedback)
        if self._hidden:
            entry.pieces = [PartViewModel("hidden", row.id)]
            return entry
        if not row.read:
            html = self._renderer.html(row.head, entry.note or None) if row.head else ""
            entry.pieces = [PartViewModel("large", row.id, html=html, size=row.size)]
            return entry
        dialect = self._dialect(row)
        if entry.note and _is_fully_masked(dialect, row.payload):
            entry.pieces = [PartViewModel("gone", row.id, html=entry.note)]
            return entry
        note = entry.note or None
        entry.pieces = MessageRenderer(row, dialect, row.payload, self._renderer, note).pieces()
        return entry

    def _dialect(self, row: MessagePreview) -> str:
        voice = self._labels.get(row.agent_id)
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
    pieces: list[PartViewModel] = []
    calls: list[PartViewModel] = []
    for piece in [*entry.pieces, None]:
        if piece is not None and piece.kind == "call":
            calls.append(piece)
            continue
        if len(calls) >= MIN_GROUPED_CALLS:
            pieces.append(PartViewModel("group", entry.row.id, contents=calls))
        else:
            pieces.extend(calls)
        calls = []
        if piece is not None:
            pieces.append(piece)
    entry.pieces = pieces


@dataclass(frozen=True, slots=True)
class MessageRenderer:
    row: MessagePreview
    dialect: str
    payload: Any
    wording: TextRenderer
    note: str | None = None

    def pieces(self) -> list[PartViewModel]:
        row, payload = self.row, self.payload
        if isinstance(payload, CorruptPayload):
            text = displayable(without_hashes(payload.text))
            cut = len(text) if len(text) > MAX_SHOWN_CHARACTERS else 0
            return [
                PartViewModel(
                    "corrupt", row.id, html=text[:MAX_SHOWN_CHARACTERS], cut=cut, size=row.size
                )
            ]
        pieces = [
            self._piece(block, part)
            for block in dialects.get(self.dialect).blocks(payload)
            for part in block.parts
        ]
        return pieces or [PartViewModel("empty", row.id)]

    def _piece(self, block: TranscriptBlock, part: Part) -> PartViewModel:
        name = displayable(part.name)
        piece = PartViewModel("data", self.row.id, block.path, name=name, status=part.status)
        piece.call_id = displayable(part.call_id)
        match part.kind:
            case PartKind.TEXT:
                piece.kind = "text"
                self._set_text(piece, part.text)
                piece.scrolls = len(part.text) > _SCROLL_FROM
                piece.citations = citations(part.data)
            case PartKind.REASONING:
                piece.kind = "reasoning"
                piece.size = part.size
                self._set_text(piece, part.text)
            case PartKind.TOOL_CALL:
                piece.kind = "call"
                piece.tree = tree(part.data, note=self.note) if part.data is not None else ""
            case PartKind.TOOL_RESULT:
                piece.kind = "result"
                self._set_result(piece, block, part)
            case PartKind.IMAGE | PartKind.DOCUMENT:
                self._set_media(piece, part)
            case PartKind.UNKNOWN:
                piece.tree = tree(part.data, note=self.note)
        return piece

    def _set_text(self, piece: PartViewModel, text: str) -> None:
        piece.cut = len(text) if len(text) > MAX_SHOWN_CHARACTERS else 0
        piece.html = self.wording.html(text[:MAX_SHOWN_CHARACTERS], self.note) if text else ""

    def _set_result(self, piece: PartViewModel, block: TranscriptBlock, part: Part) -> None:
        if block.inner:
            piece.contents = [
                self._nested_piece(inner, content)
                for inner in block.inner
                for content in inner.parts
            ]
            contents = [content.data for content in part.parts]
            if (
                part.data is not None
                and part.data not in contents
                and not _is_list_of(part, contents)
            ):
                piece.tree = tree(part.data, note=self.note)
        elif part.data is not None:
            piece.tree = tree(part.data, note=self.note)
        else:
            piece.contents += [
                self._nested_piece(TranscriptBlock(block.path, (content,)), content)
                for content in part.parts
            ]
        inner = [content for nested in block.inner for content in nested.parts]
        if part.text and not any(content.text for content in (*part.parts, *inner)):
            # A format may give the text alone, without contents.
            text = Part(PartKind.TEXT, text=part.text)
            piece.contents.append(self._nested_piece(TranscriptBlock(block.path, (text,)), text))

    def _nested_piece(self, block: TranscriptBlock, part: Part) -> PartViewModel:
        piece = PartViewModel("data", self.row.id, block.path, name=displayable(part.name))
        if part.kind is PartKind.TEXT:
            piece.kind = "output"
            piece.cut = len(part.text) if len(part.text) > _MAX_RESULT else 0
            piece.scrolls = len(part.text) > _SCROLL_RESULT_FROM
            piece.html = TextRenderer(plain=True).html(part.text[:_MAX_RESULT], self.note)
        elif part.kind in (PartKind.IMAGE, PartKind.DOCUMENT):
            self._set_media(piece, part)
        else:
            piece.tree = tree(part.data, note=self.note)
        return piece

    def _set_media(self, piece: PartViewModel, part: Part) -> None:
        piece.kind = "file"
        piece.media_type, piece.size = displayable(part.media_type), part.size
        if (
            part.kind is PartKind.IMAGE
            and part.size is not None
            and part.media_type in DISPLAYABLE_TYPES
        ):
            data = dialects.get(self.dialect).binary_at(self.payload, piece.path)
            if data is not None and _is_image(data[0]):
                piece.kind = "image"
        if part.url:
            piece.url, piece.host = safe_link(part.url)
        if part.text:
            self._set_text(piece, part.text)
        if part.data:
            piece.tree = tree(part.data, note=self.note)


def _is_list_of(part: Part, contents: Sequence[Any]) -> bool:
    """Return whether the data of a result is only the list of its JSON contents."""
    return isinstance(part.data, list) and all(value in contents for value in part.data)


def _is_image(data: bytes | BlobRef) -> bool:
    """Return whether a page may show it as an image, judged by its first bytes."""
    if isinstance(data, BlobRef):
        return data.media_type in DISPLAYABLE_TYPES and data.media_type != ""
    return bool(image_type(data[:16]))


def safe_link(url: str) -> tuple[str, str]:
    """Return the URL if it may be a link, else an empty text; and its host or a short form."""
    url = displayable(url)[:2000]
    try:
        parts = urlsplit(url)
    except ValueError:
        return "", url[:200]
    if parts.scheme in ("http", "https") and parts.hostname:
        return url, parts.hostname
    return "", f"{parts.scheme}://{parts.netloc}"[:200] if parts.scheme else url[:200]


def citations(data: Any) -> list[tuple[str, str]]:
    """Return the title and the link of each source that a text cites."""
    sources = []
    for source in data if isinstance(data, list | tuple) else ():
        if not isinstance(source, dict):
            continue
        url = cited_url(source)
        link, host = safe_link(url) if url else ("", "")
        title = next(
            (
                source[key]
                for key in ("title", "filename", "source")
                if isinstance(source.get(key), str) and source[key]
            ),
            host or _("source"),
        )
        sources.append((displayable(title)[:200], link))
    return sources
