"""Fixtures of the tests of redaction."""

from __future__ import annotations

import pytest
from django.db import connection


@pytest.fixture
def upstream_sqlite(monkeypatch):
    """SQLite as it is built upstream: it leaves what was deleted in its pages and its log."""
    if connection.vendor == "sqlite":
        connection.close()
        options = dict(connection.settings_dict["OPTIONS"])
        options["init_command"] += "PRAGMA secure_delete=OFF; PRAGMA wal_autocheckpoint=0;"
        monkeypatch.setitem(connection.settings_dict, "OPTIONS", options)
    yield
    connection.close()
