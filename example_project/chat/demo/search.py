"""Searches a SQLite database's files for a text, byte by byte: ``python -m … FILE TEXT``.

It is a program of its own, because a process that has the database open must not open and close
its file by itself: closing it gives up SQLite's locks.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SUFFIXES = ("", "-wal", "-shm")
"""Of the files that a SQLite database in WAL mode has."""


def search(database: Path, text: str) -> dict[str, int]:
    """Counts in a process of its own.

    Args:
        database: The database file.
        text: What to search for.

    Returns:
        How often each of the files that exist holds the text.
    """
    done = subprocess.run(
        [sys.executable, "-m", __name__, str(database), text],
        cwd=Path(__file__).resolve().parents[3],
        capture_output=True,
        check=True,
        text=True,
    )
    counted = (line.split(" ", 1) for line in done.stdout.splitlines())
    return {name: int(count) for count, name in counted}


def _main(database: str, text: str) -> None:
    for suffix in SUFFIXES:
        file = Path(database + suffix)
        if file.exists():
            sys.stdout.write(f"{file.read_bytes().count(text.encode())} {file.name}\n")


if __name__ == "__main__":
    _main(*sys.argv[1:])
