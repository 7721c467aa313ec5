"""Limits of statements on an SQLite file of unknown origin.

The file may define views and computed columns, which run in this process: a recursive view never
ends, and a computed column can be a gigabyte long.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable
from typing import Any

from django_agent_sessions import conf
from django_agent_sessions.exceptions import ConfigurationError

STATEMENT_SECONDS = 300
"""Seconds after which a statement is stopped."""

MAX_RESULT_ROWS = 5_000_000
"""Number of rows of a statement's result."""

_STEPS = 100_000
_LONGEST_VALUE = 1_000_000_000


class LargeResultError(ConfigurationError):
    """The rows of a statement are too large together; fewer of them can be read."""


class StatementLimits:
    """Limits the statements of connections of :mod:`sqlite3`, one at a time."""

    def __init__(self) -> None:
        self._until = 0.0

    def apply(self, connection: sqlite3.Connection) -> None:
        """Limit the statements of a connection, and what the file can make it call."""
        self.begin()
        longest = 2 * conf.get_settings().MAX_PAYLOAD_BYTES
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, min(longest, _LONGEST_VALUE))
        # Computed columns may only call harmless functions.
        connection.execute("PRAGMA trusted_schema=OFF")
        connection.set_progress_handler(self._is_over, _STEPS)

    def begin(self) -> None:
        """Start the time of a statement."""
        self._until = time.monotonic() + STATEMENT_SECONDS

    def _is_over(self) -> bool:
        return time.monotonic() > self._until


def fetch(cursor: Iterable[Any], max_bytes: int | None) -> list[Any]:
    """Return the rows of a statement; raise if they are too many or, together, too large."""
    rows: list[Any] = []
    size = 0
    for row in cursor:
        rows.append(row)
        size += sum(len(value) for value in row if isinstance(value, str | bytes))
        if len(rows) > MAX_RESULT_ROWS:
            raise ConfigurationError(f"a statement returns more than {MAX_RESULT_ROWS} rows")
        if max_bytes is not None and size > max_bytes and len(rows) > 1:
            raise LargeResultError(f"{len(rows)} rows have more than {max_bytes} bytes")
    return rows


def is_view(run: Any, table: str) -> bool:
    """Return whether a name is a view or a virtual table."""
    found = run(
        "SELECT type, sql LIKE 'CREATE VIRTUAL%%' FROM sqlite_master WHERE lower(name) = lower(%s)",
        [table],
    )
    return any(kind not in ("table", b"table") or virtual for kind, virtual in found)


def view_error(label: str, table: str) -> ConfigurationError:
    """Return the error for a view in place of a table."""
    return ConfigurationError(
        f"{label}: {table!r} is a view, which may never end: pass the names of the tables, or copy "
        "the rows into tables"
    )


def error_text(error: Exception) -> str:
    """Return the text of a driver's error."""
    if "interrupted" in str(error):
        return f"a statement took more than {STATEMENT_SECONDS} seconds"
    return str(error)
