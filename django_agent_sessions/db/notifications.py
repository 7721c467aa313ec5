"""Notify PostgreSQL's listeners of new messages, at a limited rate.

``NOTIFY`` takes a server-wide lock at each commit, so a process notifies of a session at most
once a second. A listener polls often for a while after a notification, and so sees later messages.
"""

from __future__ import annotations

import functools
import logging
import threading
import time
from uuid import UUID

from django.db import Error, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from django_agent_sessions import conf

logger = logging.getLogger("django_agent_sessions")

CHANNEL = "agent_sessions"
"""The channel. A notification's payload is a session's primary key in hexadecimal digits."""

MIN_INTERVAL_SECONDS = 1.0
"""Minimum interval of a process's notifications of the same session, in seconds."""

_MAX_TRACKED = 1000

_lock = threading.Lock()
_last_sent: dict[tuple[str, UUID], float] = {}


def notify_written(using: str, session: UUID) -> None:
    """Notify listeners that a session was written to, if ``LISTEN_DATABASE`` is set.

    In a transaction the notification is sent after the commit. Errors are logged only: a listener
    that misses a notification polls.
    """
    if conf.get_settings().LISTEN_DATABASE is None:
        return
    connection = connections[using]
    if connection.vendor != "postgresql":
        return
    if connection.in_atomic_block:
        notify = functools.partial(_notify, connection, session)
        transaction.on_commit(notify, using=using, robust=True)
    elif connection.autocommit:
        _notify(connection, session)


def _notify(connection: BaseDatabaseWrapper, session: UUID) -> None:
    if not _is_due((connection.alias, session)):
        return
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, session.hex])
    except Error:
        logger.warning("could not notify listeners of session %s", session)


def _is_due(key: tuple[str, UUID]) -> bool:
    now = time.monotonic()
    with _lock:
        if now - _last_sent.get(key, -MIN_INTERVAL_SECONDS) < MIN_INTERVAL_SECONDS:
            return False
        if len(_last_sent) >= _MAX_TRACKED:
            for old in [
                old for old, when in _last_sent.items() if now - when >= MIN_INTERVAL_SECONDS
            ]:
                del _last_sent[old]
        _last_sent[key] = now
    return True
