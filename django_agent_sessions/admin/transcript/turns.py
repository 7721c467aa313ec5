"""A window of messages as a conversation: who spoke, and each tool call with its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from django_agent_sessions import transcripts
from django_agent_sessions.fields import CorruptPayload
from django_agent_sessions.payloads import without_hashes
from django_agent_sessions.references import BlobRef
from django_agent_sessions.transcripts import Part, PartKind, displayable
from django_agent_sessions.transcripts.blocks import Block, binary, blocks
from django_agent_sessions.transcripts.images import CLAIMED, image_type
from django_agent_sessions.windows import Row, Window

from .links import citations, remote
from .pieces import GROUPED, Entry, Piece, Turn, Voice, tool_names
from .trees import tree
from .wording import MASK, SHOWN, Wording

_TALL = 5000
_RESULT_SHOWN = 6000
_RESULT_TALL = 1500


def _no_note(row: Row) -> str:
    return ""


class Reading:
    """Reads a window into turns.

    Args:
        voices: The session's agents by key.
        note: Tells of a redacted message when, by whom and, if that may be told, why it was.
        plain: Whether Markdown is left as it was written.
        hidden: Whether the viewer may not read: only roles and figures are shown.
    """

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
        """Reads the messages.

        Args:
            window: The messages, with their payloads.

        Returns:
            The turns, in order.
        """
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
        voice = self._voices.get(row.agent_id)
        return self._pieces(row, voice.dialect if voice else "", payload, None)

    def _entry(self, row: Row) -> Entry:
        entry = Entry(row, note=self._note(row))
        if self._hidden:
            entry.pieces = [Piece("hidden", row.id)]
            return entry
        if not row.read:
            html = self._wording.html(row.head, entry.note or None) if row.head else ""
            entry.pieces = [Piece("large", row.id, html=html, size=row.size)]
            return entry
        voice = self._voices.get(row.agent_id)
        dialect = voice.dialect if voice else ""
        if entry.note and _wholly_masked(dialect, row.payload):
            entry.pieces = [Piece("gone", row.id, html=entry.note)]
            return entry
        entry.pieces = self._pieces(row, dialect, row.payload, entry.note or None)
        return entry

    def _pieces(self, row: Row, dialect: str, payload: Any, note: str | None) -> list[Piece]:
        if isinstance(payload, CorruptPayload):
            text = displayable(without_hashes(payload.text))
            cut = len(text) if len(text) > SHOWN else 0
            return [Piece("corrupt", row.id, html=text[:SHOWN], cut=cut, size=row.size)]
        found = [
            self._piece(row, dialect, payload, block, part, note)
            for block in blocks(dialect, payload)
            for part in block.parts
        ]
        return found or [Piece("empty", row.id)]

    def _piece(
        self, row: Row, dialect: str, payload: Any, block: Block, part: Part, note: str | None
    ) -> Piece:
        piece = Piece("data", row.id, block.path, name=displayable(part.name), status=part.status)
        piece.call_id = displayable(part.call_id)
        match part.kind:
            case PartKind.TEXT:
                piece.kind = "text"
                self._say(piece, part.text, SHOWN, note)
                piece.tall = len(part.text) > _TALL
                piece.citations = citations(part.data)
            case PartKind.REASONING:
                piece.kind = "reasoning"
                piece.size = part.size
                self._say(piece, part.text, SHOWN, note)
            case PartKind.TOOL_CALL:
                piece.kind = "call"
                piece.tree = tree(part.data, note=note) if part.data is not None else ""
            case PartKind.TOOL_RESULT:
                piece.kind = "result"
                self._answer(piece, row, dialect, payload, block, part, note)
            case PartKind.IMAGE | PartKind.DOCUMENT:
                self._media(piece, dialect, payload, part, note)
            case PartKind.UNKNOWN:
                piece.tree = tree(part.data, note=note)
        return piece

    def _say(self, piece: Piece, text: str, most: int, note: str | None) -> None:
        piece.cut = len(text) if len(text) > most else 0
        piece.html = self._wording.html(text[:most], note) if text else ""

    def _answer(
        self,
        piece: Piece,
        row: Row,
        dialect: str,
        payload: Any,
        block: Block,
        part: Part,
        note: str | None,
    ) -> None:
        if block.inner:
            piece.contents = [
                self._inner(row, dialect, payload, inner, content, note)
                for inner in block.inner
                for content in inner.parts
            ]
            beside = [content.data for content in part.parts]
            if part.data is not None and part.data not in beside and not _lists(part, beside):
                piece.tree = tree(part.data, note=note)
        elif part.data is not None:
            piece.tree = tree(part.data, note=note)
        else:
            for content in part.parts:
                outer = Block(block.path, (content,))
                piece.contents.append(self._inner(row, dialect, payload, outer, content, note))

    def _inner(
        self, row: Row, dialect: str, payload: Any, block: Block, part: Part, note: str | None
    ) -> Piece:
        piece = Piece("data", row.id, block.path, name=displayable(part.name))
        if part.kind is PartKind.TEXT:
            piece.kind = "output"
            piece.cut = len(part.text) if len(part.text) > _RESULT_SHOWN else 0
            piece.tall = len(part.text) > _RESULT_TALL
            piece.html = Wording(plain=True).html(part.text[:_RESULT_SHOWN], note)
        elif part.kind in (PartKind.IMAGE, PartKind.DOCUMENT):
            self._media(piece, dialect, payload, part, note)
        else:
            piece.tree = tree(part.data, note=note)
        return piece

    def _media(
        self, piece: Piece, dialect: str, payload: Any, part: Part, note: str | None
    ) -> None:
        piece.kind = "file"
        piece.media_type, piece.size = displayable(part.media_type), part.size
        if part.kind is PartKind.IMAGE and part.size is not None and part.media_type in CLAIMED:
            data = binary(dialect, payload, piece.path)
            if data is not None and _is_image(data[0]):
                piece.kind = "image"
        if part.url:
            piece.url, piece.host = remote(part.url)
        if part.text:
            self._say(piece, part.text, SHOWN, note)
        if part.data:
            piece.tree = tree(part.data, note=note)


def _lists(part: Part, beside: Sequence[Any]) -> bool:
    """Tells whether the data of a result is only the list of its JSON contents."""
    return isinstance(part.data, list) and all(value in beside for value in part.data)


def _is_image(data: bytes | BlobRef) -> bool:
    """Tells whether a page may show it, by its first bytes; of a reference they are known."""
    if isinstance(data, BlobRef):
        return data.media_type in CLAIMED and data.media_type != ""
    return bool(image_type(data[:16]))


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
