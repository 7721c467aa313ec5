"""Content that exists: walk through it, and replace it. Nothing else writes its columns."""

from __future__ import annotations

from ._content_rows import Copy, content_versions, walk
from ._content_writes import (
    clear_copied_content,
    clear_derived_titles,
    increment_redaction_epoch,
    replace_derived,
    replace_references,
    replace_window,
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
from ._variants import (
    MessageRef,
    VariantRow,
    agents_with_windows,
    has_variants,
    message_ref_of,
    position_range,
    references_in,
    snapshots_with_variants,
    variants_column,
    with_references,
)

__all__ = [
    "MAX_LABELS",
    "MAX_NOTE",
    "MAX_NOTES",
    "Copy",
    "MessageRef",
    "MessageRow",
    "VariantRow",
    "agents_with_windows",
    "clear_copied_content",
    "clear_derived_titles",
    "content_versions",
    "delete_messages",
    "has_content_of",
    "has_variants",
    "increment_redaction_epoch",
    "insert_note",
    "label_name",
    "message_ref_of",
    "move_binaries_to_storage",
    "note_text",
    "object_pieces",
    "position_range",
    "references_in",
    "replace_derived",
    "replace_note",
    "replace_references",
    "replace_window",
    "reseal",
    "snapshots_with_variants",
    "uploads_of",
    "variants_column",
    "walk",
    "with_references",
    "write_redaction",
]
