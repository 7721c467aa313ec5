"""What SQLite keeps of deleted rows: free pages, and the write-ahead log."""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from . import bridge

logger = logging.getLogger("django_agent_sessions")

_CHECKPOINT_PATIENCE = 1000
"""Milliseconds that a redaction waits for the readers of SQLite's write-ahead log."""


def overwrite_from_the_start(connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
    """Makes a new SQLite connection overwrite what it deletes; for ``connection_created``.

    A redaction would be too late: inserting a large message already moves others within the
    file, and leaves their old places as they were.
    """
    if connection.vendor == "sqlite" and connection.alias == bridge.database():
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA secure_delete=ON")


@contextmanager
def overwrite_leftovers(using: str) -> Iterator[None]:
    """Makes SQLite overwrite what a block deletes, in its free pages and write-ahead log too.

    Other databases have no such thing: what is deleted there goes with their own vacuuming.
    """
    connection = connections[using]
    if connection.vendor != "sqlite":
        yield
        return
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA secure_delete=ON")
    yield
    # At once outside a transaction, else after the caller's commit.
    transaction.on_commit(functools.partial(_empty_log, using), using)


def _empty_log(using: str) -> None:
    with connections[using].cursor() as cursor:
        cursor.execute("PRAGMA busy_timeout")
        timeout = cursor.fetchone()[0]
        # A reader may read for hours, and whoever redacts shall not wait for it.
        cursor.execute(f"PRAGMA busy_timeout={_CHECKPOINT_PATIENCE:d}")
        try:
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            busy = cursor.fetchone()[0]
        finally:
            cursor.execute(f"PRAGMA busy_timeout={timeout:d}")
    if busy:
        logger.warning(
            "the write-ahead log of %s could not be emptied because it is being read; what was "
            "redacted leaves it with a later checkpoint: PRAGMA wal_checkpoint(TRUNCATE)",
            using,
        )
