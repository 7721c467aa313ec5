"""Databases that were written by the packages themselves: by their own code, see ``writing``."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]


def copy_committed(package: str, directory: Path) -> tuple[Path, dict[str, Any]]:
    """Returns a copy of the committed database, and the items that the package read from it."""
    found = shutil.copy(HERE / f"{package}.db", directory)
    return Path(found), _items(HERE / f"{package}.json")


def write(package: str, directory: Path) -> tuple[Path, dict[str, Any]]:
    """The same from a database that is written now, where the package is installed."""
    if importlib.util.find_spec(package) is None:
        return copy_committed(package, directory)
    subprocess.run(
        [sys.executable, "-m", f"tests.interchange.coming_from.write_{package}", directory],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"},
        check=True,
    )
    return directory / f"{package}.db", _items(directory / f"{package}.json")


def _items(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found
