"""Importing whole sessions: the store for it, and what an imported message may have."""

from __future__ import annotations

from ._importing import COUNT_COLUMNS, ImportedMessage, ImportedRow, ImportStore, plausible_count

__all__ = ["COUNT_COLUMNS", "ImportStore", "ImportedMessage", "ImportedRow", "plausible_count"]
