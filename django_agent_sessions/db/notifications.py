"""Notify PostgreSQL's listeners of new messages, at a limited rate.

``NOTIFY`` takes a server-wide lock at each commit, so a process notifies of a session at most
once a second. A listener polls often for a while after a notification, and so sees later messages.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from uuid import UUID

from django.db import Error, connections

from django_agent_sessions import conf
from django_agent_sessions.values.run_context import SessionWrite

logger = logging.getLogger("django_agent_sessions")

CHANNEL = "agent_sessions"
"""The channel. A notification's payload is a session's primary key in hexadecimal digits."""

MIN_INTERVAL_SECONDS = 1.0
"""Minimum interval of a process's notifications of the same session, in seconds."""

_MAX_TRACKED = 1000

_lock = threading.Lock()
_last_sent: dict[tuple[str, UUID], float] = {}


def notifier(using: str) -> Callable[[SessionWrite], None] | None:
    """Return what notifies listeners of a write, if ``LISTEN_DATABASE`` is set; else None."""
    if connections[using].vendor != "postgresql" or conf.get_settings().LISTEN_DATABASE is None:
        return None
    return _notify


def _notify(write: SessionWrite) -> None:
    """Notify listeners. An error is logged only: one that misses a notification polls."""
    if not _is_due((write.using, write.session)):
        return
    try:
        with connections[write.using].cursor() as cursor:
            cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, write.session.hex])
    except Error:
        logger.warning("could not notify listeners of session %s", write.session)


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
