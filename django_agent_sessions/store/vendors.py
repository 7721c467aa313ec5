"""What single vendors need around a write."""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from django_agent_sessions import bridge, payloads
from django_agent_sessions.exceptions import PayloadError

logger = logging.getLogger("django_agent_sessions")

_WORTH_ASKING = 256 * 1024
# The rest of a statement with the most rows, generously.
_OVERHEAD = 256 * 1024
_QUOTED = {ord(character): "??" for character in "\\'\"\n\r\0\x1a"}
_CHECKPOINT_PATIENCE = 1000
"""Milliseconds that a redaction waits for the readers of SQLite's write-ahead log."""


def check_statement_size(using: str, texts: Sequence[str]) -> None:
    """Refuses what the server would drop the connection for: MySQL's and MariaDB's packet size.

    Args:
        using: The alias of the database.
        texts: The values of a statement that can be large.

    Raises:
        PayloadError: The statement would be larger than the server takes.
    """
    connection = connections[using]
    if connection.vendor != "mysql" or sum(map(len, texts)) < _WORTH_ASKING:
        return
    size = _OVERHEAD + sum(len(text.translate(_QUOTED).encode()) for text in texts)
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@max_allowed_packet")
        allowed = int(cursor.fetchone()[0])
    if size > allowed:
        raise PayloadError(
            f"the statement would be {size} bytes; the server takes {allowed}: raise its "
            "max_allowed_packet"
        )


def check_values_size(using: str, *values: Any) -> None:
    """Does what :func:`check_statement_size` does, for values of payload fields.

    Args:
        using: The alias of the database.
        values: The payloads of one statement.

    Raises:
        PayloadError: The statement would be larger than the server takes, or a value is not JSON.
    """
    if connections[using].vendor == "mysql":
        check_statement_size(using, [payloads.dumps(value) for value in values])


def overwrite_from_the_start(connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
    """Makes a new SQLite connection overwrite what it deletes; for ``connection_created``.

    A redaction would be too late: inserting a large message already moves others within the
    file, and leaves their old places as they were.

    Args:
        connection: The connection that was just opened.
        **kwargs: The rest of the signal.
    """
    if connection.vendor == "sqlite" and connection.alias == bridge.database():
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA secure_delete=ON")


@contextmanager
def overwrite_leftovers(using: str) -> Iterator[None]:
    """Makes SQLite overwrite what a block deletes, in its free pages and write-ahead log too.

    Other databases have no such thing: what is deleted there goes with their own vacuuming.

    Args:
        using: The alias of the database.
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
