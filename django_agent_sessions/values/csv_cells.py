"""Cells of CSV files that spreadsheets open."""

from __future__ import annotations

import unicodedata

_FORMULA = ("=", "+", "-", "@")


def csv_cell(value: str) -> str:
    """Return a value that a spreadsheet does not take for a formula.

    Spreadsheets also compute full-width signs, and signs after white space.
    """
    begins = unicodedata.normalize("NFKC", value.lstrip()[:1])
    return f"'{value}" if begins in _FORMULA or value[:1] in ("\t", "\r", "\n") else value
