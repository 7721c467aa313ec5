"""A database of each released version is upgraded, checked and read as before."""

from __future__ import annotations

import json
import lzma
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
RELEASED = sorted(HERE.glob("*.sqlite3.xz"))


def run(database: Path, *command: str) -> str:
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.upgrades.settings",
        "UPGRADED_DATABASE": str(database),
    }
    done = subprocess.run(
        [sys.executable, "-m", *command], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_there_is_a_database_of_a_release():
    assert RELEASED


# Over a second: each command is a process of its own.
@pytest.mark.parametrize(
    "released", RELEASED, ids=lambda file: file.name.removesuffix(".sqlite3.xz")
)
def test_a_released_database_is_upgraded_checked_and_read_as_before(
    released, tmp_path, other_process
):
    database = tmp_path / "upgraded.sqlite3"
    database.write_bytes(lzma.decompress(released.read_bytes()))
    stored = rows(database)
    for message in stored["agent_sessions_sessionmessage"]:
        # Its original goes: that release could still show it.
        message["message"] = message["redact_message"] or message["message"]
    run(database, "django", "migrate", "--verbosity", "0")
    assert "missing" not in run(database, "django", "agent_sessions_check")
    before: Any = json.loads(released.with_suffix("").with_suffix(".json").read_text())
    run(database, "django", "migrate", "agent_sessions", "0001", "--verbosity", "0")
    assert rows(database) == stored
    run(database, "django", "migrate", "--verbosity", "0")
    assert json.loads(run(database, "tests.upgrades.released", "read")) == before


# Over a second: each command is a process of its own.
def test_an_original_of_a_held_session_is_not_removed_by_an_upgrade(tmp_path, other_process):
    database = tmp_path / "upgraded.sqlite3"
    database.write_bytes(lzma.decompress((HERE / "0.1.0.sqlite3.xz").read_bytes()))
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("UPDATE agent_sessions_session SET legal_hold = 1")
    stored = rows(database)["agent_sessions_sessionmessage"]

    with pytest.raises(AssertionError, match="1 messages of sessions under legal hold"):
        run(database, "django", "migrate", "--verbosity", "0")

    run(database, "django", "migrate", "agent_sessions", "0001", "--verbosity", "0")
    assert rows(database)["agent_sessions_sessionmessage"] == stored


def rows(database: Path) -> dict[str, list[dict[str, Any]]]:
    """Read all rows of our tables."""
    with closing(sqlite3.connect(database)) as connection:
        connection.row_factory = sqlite3.Row
        found = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'agent_sessions_%'"
        )
        tables = sorted(name for (name,) in found)
        return {
            table: sorted(map(dict, connection.execute(f"SELECT * FROM {table}")), key=repr)
            for table in tables
        }


# Over a second: each command is a process of its own.
def test_figures_of_days_are_kept_as_hours_and_an_upgrade_is_undone(tmp_path, other_process):
    database = tmp_path / "upgraded.sqlite3"
    database.write_bytes(lzma.decompress((HERE / "0.1.0.sqlite3.xz").read_bytes()))
    columns = "dimension, period, key, sessions, messages, input_tokens, output_tokens, cost"
    days = sorted(
        (dimension, period, key, 1, 12, 34, None, 5)
        for dimension, key in (("day", ""), ("agent", "a"), ("owner", "7"), ("owner_day", "7"))
        for period in ("2026-05-01", "2026-06-01")
    )

    def stored(columns: str) -> list[Any]:
        with closing(sqlite3.connect(database)) as connection:
            return sorted(connection.execute(f"SELECT {columns} FROM agent_sessions_usagerollup"))

    with closing(sqlite3.connect(database)) as connection, connection:
        connection.executemany(
            f"INSERT INTO agent_sessions_usagerollup ({columns}, latencies) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, '{\"48\": 12}')",
            days,
        )
    run(database, "django", "migrate", "--verbosity", "0")
    hours = {"day": "hour", "agent": "agent_hour"}
    kept: list[Any] = [(*row, 0) for row in days]
    kept += [(hours[name], *row, 11) for name, *row in days if name in hours]
    assert stored(f"{columns}, hour") == sorted(kept)
    assert set(stored("latencies")) == {('{"48": 12}',)}
    run(database, "django", "migrate", "agent_sessions", "0001", "--verbosity", "0")
    assert stored(columns) == days
