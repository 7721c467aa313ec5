"""Errors on pages are in the language of the page."""

from __future__ import annotations

import pytest
from django.utils.translation import override

from django_agent_sessions.admin.pages import error_text
from django_agent_sessions.exceptions import (
    BlobError,
    LegalHoldError,
    SessionConflictError,
    StaleSessionError,
    WorkLimitError,
)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (LegalHoldError("session 'a' is under legal hold"), "Löschsperre"),
        (SessionConflictError("the session changed"), "Ein anderer Prozess"),
        (StaleSessionError("the session was redacted"), "Ein anderer Prozess"),
        (WorkLimitError("this takes more than 9 seconds"), "mehr Zeit oder Speicher"),
    ],
)
def test_frequent_errors_are_translated(error, words):
    with override("de"):
        assert words in error_text(error)


def test_a_rare_error_keeps_its_own_text():
    with override("de"):
        assert error_text(BlobError("binary 1 is missing")) == "binary 1 is missing"
