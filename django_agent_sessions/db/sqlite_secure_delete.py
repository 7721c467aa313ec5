"""Overwrite deleted content in SQLite's free pages and write-ahead log."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import DatabaseError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper

from django_agent_sessions.db import bridge

logger = logging.getLogger("django_agent_sessions")

_PATIENCE = 1.0
"""Seconds that a redaction waits for the readers of SQLite's write-ahead log."""

_PAUSE = 0.02
"""Seconds between two attempts to empty the log."""


def set_secure_delete(connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
    """Set ``secure_delete`` on a new SQLite connection; a receiver of ``connection_created``.

    A redaction would be too late: inserting a large message may already have moved others within
    the file and left copies of them in free pages.
    """
    if connection.vendor == "sqlite" and connection.alias == bridge.database():
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA secure_delete=ON")


@contextmanager
def secure_delete(using: str) -> Iterator[None]:
    """Make SQLite overwrite content that is deleted in the block, and empty its write-ahead log.

    Does nothing on other databases, whose vacuum frees deleted rows.
    """
    connection = connections[using]
    if connection.vendor != "sqlite":
        yield
        return
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA secure_delete=ON")
    yield
    empty_log_after_commit(using)


def empty_log_after_commit(using: str, patience: float = _PATIENCE) -> None:
    """Empty SQLite's write-ahead log after the commit of the transaction, or now without one."""
    connection = connections[using]
    if not (connection.in_atomic_block or connection.autocommit):
        # Only the caller knows when it commits.
        return
    # Once per transaction; a savepoint that is rolled back takes its call with it.
    if any(
        isinstance(call, _EmptyLog) and call.patience >= patience
        for _, call, *_ in connection.run_on_commit
    ):
        return
    transaction.on_commit(_EmptyLog(using, patience), using)


class _EmptyLog:
    """Move the write-ahead log's pages to the database file, and truncate the log."""

    def __init__(self, using: str, patience: float) -> None:
        self.using = using
        self.patience = patience

    def __call__(self) -> None:
        try:
            emptied = self._empty()
        except DatabaseError:
            # What was deleted is committed, and must not look failed.
            emptied = False
        if not emptied:
            logger.warning(
                "the write-ahead log of %s could not be emptied because another connection reads "
                "it; what was redacted or deleted stays in it until "
                "manage.py agent_sessions_scrub or a later deletion empties it",
                self.using,
            )

    def _empty(self) -> bool:
        deadline = time.monotonic() + self.patience
        with connections[self.using].cursor() as cursor:
            cursor.execute("PRAGMA busy_timeout")
            timeout = cursor.fetchone()[0]
            # A reader may hold the log for hours, and SQLite would keep the lock of all writers
            # while it waits for it.
            cursor.execute("PRAGMA busy_timeout=0")
            try:
                while not _truncate(cursor):
                    if time.monotonic() > deadline:
                        return False
                    time.sleep(_PAUSE)
            finally:
                cursor.execute(f"PRAGMA busy_timeout={timeout:d}")
        return True


def _truncate(cursor: CursorWrapper) -> bool:
    cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return not cursor.fetchone()[0]
