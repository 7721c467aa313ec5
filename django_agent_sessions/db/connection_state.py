"""Whether a connection can be used: whether it commits, is in a transaction, or is broken."""

from __future__ import annotations

import contextlib
import select

from django.db import Error, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from django_agent_sessions.exceptions import ConfigurationError


def require_commits(using: str) -> None:
    """Require that Django commits what is written to a database; called before each write."""
    if not commits(using):
        raise ConfigurationError(
            f"{using!r} cannot store sessions, because DATABASES has 'AUTOCOMMIT': False for it "
            "and Django would never commit a message: remove that, or name another alias of the "
            "database in AGENT_SESSIONS['DATABASE']"
        )


def commits(using: str) -> bool:
    """Return whether Django commits what is written to a database outside of a transaction."""
    # Not the connection's state: a program may begin a transaction by `set_autocommit(False)`.
    return bool(connections[using].settings_dict.get("AUTOCOMMIT", True))


def in_caller_transaction(connection: BaseDatabaseWrapper) -> bool:
    """Return whether the caller has a transaction open, so that nothing may be retried here.

    A retry on a new connection would lose the caller's earlier work.
    """
    reset_lost_transaction(connection)
    if connection.in_atomic_block or connection.connection is None:
        return connection.in_atomic_block
    return not connection.autocommit


def close_if_broken(connection: BaseDatabaseWrapper) -> None:
    """Close a connection that the server has closed, so that the next use opens a new one.

    A query would cost a round trip, so the socket is checked first: it is readable if the server
    has closed it.
    """
    raw = connection.connection
    if raw is None or connection.vendor == "sqlite":
        return
    if hasattr(raw, "fileno"):
        try:
            readable, _, _ = select.select([raw], [], [], 0)
        except Exception:
            # Each driver raises its own error for a closed connection.
            readable = [raw]
        if not readable:
            return
    if not connection.is_usable():
        close_quietly(connection)


def reset_lost_transaction(connection: BaseDatabaseWrapper) -> None:
    """Reset a connection that Django believes to be in a transaction that no longer exists.

    MariaDB and MySQL end a transaction with a statement of its own. If the connection is lost in
    it, Django leaves the block but keeps the state of the connection, so that every later use would
    join a transaction that cannot be ended. The error has been raised by then.
    """
    if connection.in_atomic_block and not connection.atomic_blocks:
        # Django marks the block as entered before it creates the savepoint, also if that fails.
        connection.in_atomic_block = connection.closed_in_transaction = False
    raw = connection.connection
    left = not (raw is None or connection.in_atomic_block or connection.autocommit)
    if not left or not connection.errors_occurred:
        return
    if getattr(raw, "closed", False) or (
        connection.vendor == "mysql" and not connection.is_usable()
    ):
        close_quietly(connection)


def close_quietly(connection: BaseDatabaseWrapper) -> None:
    """Close a broken connection, so that the next use opens a new one."""
    # Django discards it even if the driver fails to close it.
    with contextlib.suppress(Error):
        connection.close()
