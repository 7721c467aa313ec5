"""The comparison of journals with rows, by which ``make contexts`` judges servers and queues."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from benchmarks.contexts.checking import Outcome, compare
from benchmarks.contexts.driving import Journal

FINE = Counter({"one": 1, "two": 1, "job-1": 1})


def journal() -> Journal:
    return Journal(["one", "two", "job-1"], ["undo-1"], ["unknown"], [])


@pytest.mark.parametrize(
    ("said", "noted", "found"),
    [
        (FINE, FINE, (3, 0, 0, 0)),
        # A job's tool may not have been called.
        (FINE, FINE - Counter(["job-1"]), (3, 0, 0, 0)),
        # The outcome of what failed is unknown.
        (FINE + Counter(["unknown"]), FINE, (4, 0, 0, 0)),
        (FINE - Counter(["one"]), FINE, (2, 1, 0, 0)),
        (FINE, FINE - Counter(["one"]), (3, 1, 0, 0)),
        (FINE + Counter(["one"]), FINE, (3, 0, 1, 0)),
        (FINE, FINE + Counter(["job-1"]), (3, 0, 1, 0)),
        (FINE + Counter(["undo-1"]), FINE, (4, 0, 0, 1)),
        (FINE, FINE + Counter(["undo-1"]), (3, 0, 0, 1)),
    ],
)
def test_what_is_lost_doubled_or_escaped_is_counted(said, noted, found):
    assert compare(journal(), said, noted) == found


def outcome(**counted: int) -> Outcome:
    fine = Outcome(
        "gunicorn", "sqlite", 3, 3, lost=0, doubled=0, undone=1, escaped=0, failed=0, seconds=1
    )
    return replace(fine, **counted)  # type: ignore[arg-type]  # all of these fields are numbers


@pytest.mark.parametrize("number", ["lost", "doubled", "escaped", "failed"])
def test_a_context_holds_only_if_nothing_of_that_happened(number):
    assert outcome().holds
    assert not outcome(**{number: 1}).holds
    assert not outcome(acknowledged=0).holds
