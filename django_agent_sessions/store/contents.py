"""Content that exists: walk through it, and replace it. Nothing else writes its columns."""

from __future__ import annotations

from ._content_rows import Copy, are_short, content_versions, walk
from ._content_writes import (
    discard_originals,
    increment_redaction_epoch,
    is_original_kept,
    replace,
    replace_derived,
    replace_messages,
    replace_references,
)
from ._mask_on_write import mask_on_write
from ._offload import move_binaries_to_storage
from ._rows import MessageRow
from ._snapshot_variants import (
    MessageRef,
    message_ref_of,
    position_range,
    replace_variants,
    snapshots_with_variants,
)

__all__ = [
    "Copy",
    "MessageRef",
    "MessageRow",
    "are_short",
    "content_versions",
    "discard_originals",
    "increment_redaction_epoch",
    "is_original_kept",
    "mask_on_write",
    "message_ref_of",
    "move_binaries_to_storage",
    "position_range",
    "replace",
    "replace_derived",
    "replace_messages",
    "replace_references",
    "replace_variants",
    "snapshots_with_variants",
    "walk",
]
