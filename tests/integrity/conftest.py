"""Fixtures of the tests of the integrity check."""

from __future__ import annotations

import pytest

from django_agent_sessions.integrity import checker
from tests.blobs.conftest import blob_folder

__all__ = ["blob_folder", "impatient"]


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """Nobody writes meanwhile, unless a test says so."""
    monkeypatch.setattr(checker, "_RECHECK_DELAY", 0)
