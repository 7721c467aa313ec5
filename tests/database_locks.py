"""Refuses to read the file of an SQLite database whose connection is open in this process.

When the process closes that file, SQLite's locks on it are gone, and the next process that opens
and closes the database deletes its write-ahead log: tests that come later find it malformed.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from django.db import connections

from django_agent_sessions.testing.leaks import database_bytes


def keep() -> None:
    """Watches each file that this process opens, until it ends."""
    sys.addaudithook(_refuse)


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "open" or not isinstance(arguments[0], (str, bytes, os.PathLike)):
        return
    name = os.fsdecode(arguments[0])
    if not name.endswith((".sqlite3", ".sqlite3-shm")):
        return
    if sys._getframe(1).f_code is database_bytes.__code__:
        return
    for connection in connections.all(initialized_only=True):
        if connection.connection is not None and name.startswith(
            str(connection.settings_dict["NAME"])
        ):
            raise RuntimeError(
                f"{name} is open as a database. Read it with testing.leaks.database_bytes, "
                "or close the connection first."
            )
