"""Looking into the files of the database takes no lock away from SQLite."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from django.db import connection

from django_agent_sessions.models import Session
from django_agent_sessions.testing import files_containing

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif("connection.vendor != 'sqlite'", reason="is about SQLite's file"),
]

OPEN_AND_CLOSE = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1])
print(database.execute("SELECT count(*) FROM agent_sessions_session").fetchone()[0])
database.close()
"""


def in_another_process() -> int:
    """Counts the sessions in a process that opens the database and closes it."""
    command = [sys.executable, "-c", OPEN_AND_CLOSE, connection.settings_dict["NAME"]]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def test_what_is_written_after_it_is_seen_by_other_processes(store, other_process):
    store.open("plantedfirst")
    log = Path(connection.settings_dict["NAME"] + "-wal")
    assert files_containing("plantedfirst")
    assert in_another_process() == 1
    assert log.exists()
    store.open("second")
    assert in_another_process() == 2
    connection.close()
    assert Session.objects.count() == 2
    with sqlite3.connect(connection.settings_dict["NAME"]) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_test_that_would_take_them_away_is_refused(store):
    store.open("s")
    database = Path(connection.settings_dict["NAME"])
    with pytest.raises(RuntimeError, match="open as a database"):
        database.read_bytes()
    connection.close()
    assert database.read_bytes()
