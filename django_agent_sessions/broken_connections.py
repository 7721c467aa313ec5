"""Connections that broke, or whose transaction ended without Django's knowing."""

from __future__ import annotations

import contextlib
import select

from django.db import Error
from django.db.backends.base.base import BaseDatabaseWrapper


def refresh(connection: BaseDatabaseWrapper) -> None:
    """Closes a connection that the server has ended, so that the next use opens a new one.

    Asking the server costs a round trip, so the socket is asked first: on one that the server
    closed there is something to read.
    """
    raw = connection.connection
    if raw is None or connection.vendor == "sqlite":
        return
    if hasattr(raw, "fileno"):
        try:
            readable, _, _ = select.select([raw], [], [], 0)
        except Exception:
            # Each driver has its own error for a connection that is closed.
            readable = [raw]
        if not readable:
            return
    if not connection.is_usable():
        abandon(connection)


def settle(connection: BaseDatabaseWrapper) -> None:
    """Forgets a transaction that ended with its connection, where Django goes on believing in it.

    MariaDB and MySQL are told of a transaction's end in a statement of its own. If the connection
    is lost in it, Django leaves the block and keeps the connection as it was: every later use of
    it would take part in a transaction that nobody can end. The error was raised by then.
    """
    if connection.in_atomic_block and not connection.atomic_blocks:
        # Django enters a block before its savepoint, and stays there if that fails.
        connection.in_atomic_block = connection.closed_in_transaction = False
    raw = connection.connection
    left = not (raw is None or connection.in_atomic_block or connection.autocommit)
    if not left or not connection.errors_occurred:
        return
    if getattr(raw, "closed", False) or (
        connection.vendor == "mysql" and not connection.is_usable()
    ):
        abandon(connection)


def abandon(connection: BaseDatabaseWrapper) -> None:
    """Closes a connection that is broken, so that the next use opens a new one."""
    # Django forgets it, also where the driver fails to close what is broken, or used elsewhere.
    with contextlib.suppress(Error):
        connection.close()
