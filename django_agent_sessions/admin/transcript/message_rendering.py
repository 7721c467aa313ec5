"""Conversion of one message into pieces of a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django_agent_sessions.content import dialects
from django_agent_sessions.content.blob_refs import BlobRef
from django_agent_sessions.content.dialects import Part, PartKind, TranscriptBlock, displayable
from django_agent_sessions.content.dialects.media import DISPLAYABLE_TYPES, image_type
from django_agent_sessions.content.exact_json import without_hashes
from django_agent_sessions.models.fields import CorruptPayload
from django_agent_sessions.queries.message_pages import MessagePreview

from .json_tree import tree
from .links import citations, safe_link
from .text_rendering import MAX_SHOWN_CHARACTERS, TextRenderer
from .view_models import PartViewModel

_SCROLL_FROM = 5000
_MAX_RESULT = 6000
_SCROLL_RESULT_FROM = 1500


class MessageRenderer:
    """Converts one message into pieces."""

    def __init__(
        self,
        row: MessagePreview,
        dialect: str,
        payload: Any,
        wording: TextRenderer,
        note: str | None = None,
    ) -> None:
        self._row = row
        self._dialect = dialect
        self._payload = payload
        self._wording = wording
        self._note = note

    def pieces(self) -> list[PartViewModel]:
        row, payload = self._row, self._payload
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
            for block in dialects.get(self._dialect).blocks(payload)
            for part in block.parts
        ]
        return pieces or [PartViewModel("empty", row.id)]

    def _piece(self, block: TranscriptBlock, part: Part) -> PartViewModel:
        name = displayable(part.name)
        piece = PartViewModel("data", self._row.id, block.path, name=name, status=part.status)
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
                piece.tree = tree(part.data, note=self._note) if part.data is not None else ""
            case PartKind.TOOL_RESULT:
                piece.kind = "result"
                self._set_result(piece, block, part)
            case PartKind.IMAGE | PartKind.DOCUMENT:
                self._set_media(piece, part)
            case PartKind.UNKNOWN:
                piece.tree = tree(part.data, note=self._note)
        return piece

    def _set_text(self, piece: PartViewModel, text: str) -> None:
        piece.cut = len(text) if len(text) > MAX_SHOWN_CHARACTERS else 0
        piece.html = self._wording.html(text[:MAX_SHOWN_CHARACTERS], self._note) if text else ""

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
                piece.tree = tree(part.data, note=self._note)
        elif part.data is not None:
            piece.tree = tree(part.data, note=self._note)
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
        piece = PartViewModel("data", self._row.id, block.path, name=displayable(part.name))
        if part.kind is PartKind.TEXT:
            piece.kind = "output"
            piece.cut = len(part.text) if len(part.text) > _MAX_RESULT else 0
            piece.scrolls = len(part.text) > _SCROLL_RESULT_FROM
            piece.html = TextRenderer(plain=True).html(part.text[:_MAX_RESULT], self._note)
        elif part.kind in (PartKind.IMAGE, PartKind.DOCUMENT):
            self._set_media(piece, part)
        else:
            piece.tree = tree(part.data, note=self._note)
        return piece

    def _set_media(self, piece: PartViewModel, part: Part) -> None:
        piece.kind = "file"
        piece.media_type, piece.size = displayable(part.media_type), part.size
        if (
            part.kind is PartKind.IMAGE
            and part.size is not None
            and part.media_type in DISPLAYABLE_TYPES
        ):
            data = dialects.get(self._dialect).binary_at(self._payload, piece.path)
            if data is not None and _is_image(data[0]):
                piece.kind = "image"
        if part.url:
            piece.url, piece.host = safe_link(part.url)
        if part.text:
            self._set_text(piece, part.text)
        if part.data:
            piece.tree = tree(part.data, note=self._note)


def _is_list_of(part: Part, contents: Sequence[Any]) -> bool:
    """Return whether the data of a result is only the list of its JSON contents."""
    return isinstance(part.data, list) and all(value in contents for value in part.data)


def _is_image(data: bytes | BlobRef) -> bool:
    """Return whether a page may show it as an image, judged by its first bytes."""
    if isinstance(data, BlobRef):
        return data.media_type in DISPLAYABLE_TYPES and data.media_type != ""
    return bool(image_type(data[:16]))
