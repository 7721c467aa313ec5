"""What services that change content use: rows, epochs, sizes, snapshot variants."""

from __future__ import annotations

from ._mask_on_write import mask_on_write
from ._offload import move_binaries_to_storage
from ._redaction import (
    increment_redaction_epoch,
    is_original_kept,
    record_redaction,
    redacted_columns,
)
from ._rows import MessageRow
from ._snapshot_variants import (
    MessageRef,
    message_ref_of,
    position_range,
    replace_variants,
    snapshot_batches,
    snapshots_with_variants,
)
from ._statement_sizes import check_statement_size, check_values_size

__all__ = [
    "MessageRef",
    "MessageRow",
    "check_statement_size",
    "check_values_size",
    "increment_redaction_epoch",
    "is_original_kept",
    "mask_on_write",
    "message_ref_of",
    "move_binaries_to_storage",
    "position_range",
    "record_redaction",
    "redacted_columns",
    "replace_variants",
    "snapshot_batches",
    "snapshots_with_variants",
]
