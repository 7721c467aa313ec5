"""Telling PostgreSQL's listeners that something was written, sparingly.

``NOTIFY`` takes a lock of the whole server at each commit, so a conversation that is being written
says so at most once a second and process. Whoever hears it looks often for a while, and so sees
what comes after it.
"""

from __future__ import annotations

import functools
import logging
import threading
import time
from uuid import UUID

from django.db import Error, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from . import conf

logger = logging.getLogger("django_agent_sessions")

CHANNEL = "agent_sessions"
"""The channel. What is sent there is a session's primary key in hexadecimal digits."""

SECONDS = 1.0
"""Seconds in which one process speaks of one session once."""

_MANY = 1000

_lock = threading.Lock()
_last: dict[tuple[str, UUID], float] = {}


def written(using: str, session: UUID) -> None:
    """Says that something was written in a session, if anybody may listen.

    In a transaction it is said after the commit. It never fails: whoever misses it, polls.
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
    if not _may_speak((connection.alias, session)):
        return
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, session.hex])
    except Error:
        logger.warning("could not notify listeners of session %s", session)


def _may_speak(key: tuple[str, UUID]) -> bool:
    now = time.monotonic()
    with _lock:
        if now - _last.get(key, -SECONDS) < SECONDS:
            return False
        if len(_last) >= _MANY:
            for old in [old for old, when in _last.items() if now - when >= SECONDS]:
                del _last[old]
        _last[key] = now
    return True
