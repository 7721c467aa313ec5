"""Importing whole sessions: the store for it, and what an imported message may have."""

from __future__ import annotations

from ._imported import COUNT_COLUMNS, ImportedMessage, ImportedRow, plausible_count
from ._importing import ImportStore

__all__ = ["COUNT_COLUMNS", "ImportStore", "ImportedMessage", "ImportedRow", "plausible_count"]
