"""Importing whole sessions: the store for it, and what an imported message may have."""

from __future__ import annotations

from ._feedback import MAX_COMMENT, ImportedFeedback, is_feedback_value, valid_feedback_source
from ._importing import (
    CACHE_COLUMNS,
    COUNT_COLUMNS,
    MAX_COST,
    ImportedBranch,
    ImportedRow,
    ImportStore,
    plausible_count,
)
from ._reviews import (
    MAX_LABELS,
    MAX_NOTE,
    MAX_NOTES,
    MAX_USER_NAME,
    ImportedLabel,
    ImportedNote,
    ImportedReview,
    label_name,
)

__all__ = [
    "CACHE_COLUMNS",
    "COUNT_COLUMNS",
    "MAX_COMMENT",
    "MAX_COST",
    "MAX_LABELS",
    "MAX_NOTE",
    "MAX_NOTES",
    "MAX_USER_NAME",
    "ImportStore",
    "ImportedBranch",
    "ImportedFeedback",
    "ImportedLabel",
    "ImportedNote",
    "ImportedReview",
    "ImportedRow",
    "is_feedback_value",
    "label_name",
    "plausible_count",
    "valid_feedback_source",
]
