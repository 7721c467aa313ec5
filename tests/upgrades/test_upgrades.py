"""A database of each released version is upgraded, checked and read as before."""

from __future__ import annotations

import json
import lzma
import os
import subprocess
import sys
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
    run(database, "django", "migrate", "--verbosity", "0")
    assert "missing" not in run(database, "django", "agent_sessions_check")
    before: Any = json.loads(released.with_suffix("").with_suffix(".json").read_text())
    assert json.loads(run(database, "tests.upgrades.released", "read")) == before
