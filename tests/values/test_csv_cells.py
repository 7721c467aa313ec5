"""Cells of CSV files are no formulas in any spelling of a sign."""

from __future__ import annotations

import pytest

from django_agent_sessions.values.csv_cells import csv_cell


@pytest.mark.parametrize(
    "text",
    [
        *("=1+1", "+1", "-1", "@S(1)", "\t=1", "\r=1", "\n=1", " =1", "\u00a0=1", "\ta"),
        *("\uff1d1+1", "\uff20S(1)", "\uff0b1", "\uff0d1", "\u3000\uff1d1", "\ufe621", "\ufe631"),
    ],
)
def test_what_begins_like_a_formula_is_a_text(text):
    assert csv_cell(text) == f"'{text}"


@pytest.mark.parametrize("text", ["", "a", "a=1", "1-1", "Ada", "„quoted“", " a"])
def test_other_texts_stay(text):
    assert csv_cell(text) == text
