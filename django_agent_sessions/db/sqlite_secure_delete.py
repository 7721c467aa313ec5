"""Overwrite deleted content in SQLite's free pages and write-ahead log."""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from django_agent_sessions.db import bridge

logger = logging.getLogger("django_agent_sessions")

_CHECKPOINT_TIMEOUT = 1000
"""Milliseconds that a redaction waits for the readers of SQLite's write-ahead log."""


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
    # Runs at once outside of a transaction, otherwise after the caller's commit.
    transaction.on_commit(functools.partial(_empty_log, using), using)


def _empty_log(using: str) -> None:
    with connections[using].cursor() as cursor:
        cursor.execute("PRAGMA busy_timeout")
        timeout = cursor.fetchone()[0]
        # A reader may hold the log for hours, and the redaction must not wait for it.
        cursor.execute(f"PRAGMA busy_timeout={_CHECKPOINT_TIMEOUT:d}")
        try:
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            busy = cursor.fetchone()[0]
        finally:
            cursor.execute(f"PRAGMA busy_timeout={timeout:d}")
    if busy:
        logger.warning(
            "the write-ahead log of %s could not be emptied because another connection reads it; "
            "the redacted text stays in it until PRAGMA wal_checkpoint(TRUNCATE) succeeds",
            using,
        )
