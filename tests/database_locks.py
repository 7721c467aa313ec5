"""Refuses to read the file of an SQLite database whose connection is open in this process.

When the process closes that file, SQLite's locks on it are gone, and the next process that opens
and closes the database deletes its write-ahead log: tests that come later find it malformed.
"""

from __future__ import annotations

import builtins
import functools
import io
import os
from typing import Any

from django.db import connections


def keep() -> None:
    """Watches each file that is opened by ``open`` in this process, until it ends.

    Not by an audit hook: one in Python lets other threads run inside of calls that else do not.
    """
    open_any = io.open

    @functools.wraps(open_any)
    def open_unless_locked(file: Any, *args: Any, **kwargs: Any) -> Any:
        _refuse(file)
        return open_any(file, *args, **kwargs)

    for module in (builtins, io):
        vars(module)["open"] = open_unless_locked


def _refuse(file: Any) -> None:
    if not isinstance(file, (str, bytes, os.PathLike)):
        return
    name = os.fsdecode(file)
    if not name.endswith((".sqlite3", ".sqlite3-shm")):
        return
    for connection in connections.all(initialized_only=True):
        if connection.connection is not None and name.startswith(
            str(connection.settings_dict["NAME"])
        ):
            raise RuntimeError(
                f"{name} is open as a database. Read it with testing.leaks.database_bytes, "
                "or close the connection first."
            )
