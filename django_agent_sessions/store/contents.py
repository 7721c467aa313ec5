"""Content that exists: walk through it, and replace it. Nothing else writes its columns."""

from __future__ import annotations

from ._change_numbers import clear_derived_titles, increment_redaction_epoch
from ._content_rows import Copy, content_versions, walk, walk_model
from ._content_writes import (
    clear_copied_content,
    replace_derived,
    replace_references,
    replace_window,
)
from ._inline_messages import (
    MessageRef,
    columns_of_references,
    keys_with_inline_messages,
    map_inline_messages,
)
from ._message_deletion import delete_messages
from ._object_bytes import object_pieces
from ._offload import move_binaries_to_storage
from ._redaction import write_redaction
from ._resealing import has_content_of, reseal
from ._reviews import (
    MAX_LABELS,
    MAX_NOTE,
    MAX_NOTES,
    insert_note,
    label_name,
    note_text,
    replace_note,
)
from ._rows import MessageRow, uploads_of

__all__ = [
    "MAX_LABELS",
    "MAX_NOTE",
    "MAX_NOTES",
    "Copy",
    "MessageRef",
    "MessageRow",
    "clear_copied_content",
    "clear_derived_titles",
    "columns_of_references",
    "content_versions",
    "delete_messages",
    "has_content_of",
    "increment_redaction_epoch",
    "insert_note",
    "keys_with_inline_messages",
    "label_name",
    "map_inline_messages",
    "move_binaries_to_storage",
    "note_text",
    "object_pieces",
    "replace_derived",
    "replace_note",
    "replace_references",
    "replace_window",
    "reseal",
    "uploads_of",
    "walk",
    "walk_model",
    "write_redaction",
]
