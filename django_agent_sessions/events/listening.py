"""Hearing of writes from PostgreSQL, on one connection per process."""

from __future__ import annotations

import logging
import threading
from typing import Any, Protocol
from uuid import UUID

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from django_agent_sessions import conf
from django_agent_sessions.notifying import CHANNEL

logger = logging.getLogger("django_agent_sessions")

WAIT_SECONDS = 1.0
"""Seconds between two looks whether anybody still wants to hear."""

LONGEST_PAUSE = 30.0
"""Seconds between two tries to connect, at the most."""

_lock = threading.Lock()
_listeners: dict[str, Listener] = {}


class Hearing(Protocol):
    """Somebody who wants to hear."""

    def hear(self, session: UUID | None) -> None:
        """Takes the key of a session; None if anything may have been missed."""


def listener(using: str) -> Listener | None:
    """Gives the process's listener."""
    alias = conf.get_settings().LISTEN_DATABASE
    if alias is None or connections[using].vendor != "postgresql":
        return None
    if connections[alias].vendor != "postgresql":
        return None
    try:
        import psycopg  # noqa: F401 - version 3; with psycopg2 there is no such package
    except ImportError:
        return None
    with _lock:
        return _listeners.setdefault(alias, Listener(alias))


class Listener:
    """A thread that listens as long as somebody wants to hear, and connects again by itself."""

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._changed = threading.Condition()
        self._hearing: set[Hearing] = set()
        self._thread: threading.Thread | None = None
        self.hears = False
        """Whether it is connected, so that what is said is heard."""

    def subscribe(self, hearing: Hearing) -> None:
        """Begins to tell somebody."""
        with self._changed:
            self._hearing.add(hearing)
            if self._thread is None or not self._thread.is_alive():
                name = "agent-sessions-listen"
                self._thread = threading.Thread(target=self._run, name=name, daemon=True)
                self._thread.start()

    def unsubscribe(self, hearing: Hearing) -> None:
        """Tells somebody no longer."""
        with self._changed:
            self._hearing.discard(hearing)
            self._changed.notify_all()

    def _run(self) -> None:
        pause = WAIT_SECONDS
        while self._wanted():
            connection = connections[self._alias].copy()
            try:
                for _ in self._listen(connection):
                    pause = WAIT_SECONDS
            except Exception as error:
                # Each driver and each network has its own errors; all of them pass.
                logger.warning("listening was interrupted: %s", type(error).__name__)
            finally:
                self.hears = False
                _close(connection)
            # Whoever hears nothing has to look more often from now on.
            self._tell(None)
            with self._changed:
                if self._hearing:
                    self._changed.wait(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    def _wanted(self) -> bool:
        with self._changed:
            if not self._hearing:
                self._thread = None
            return bool(self._hearing)

    def _listen(self, connection: BaseDatabaseWrapper) -> Any:
        """Listens until nobody wants to hear; yields each time something may have come."""
        connection.ensure_connection()
        raw: Any = connection.connection
        raw.execute(f"LISTEN {CHANNEL}")
        self.hears = True
        # What was said before was not heard.
        self._tell(None)
        while self._hearing:
            for notice in raw.notifies(timeout=WAIT_SECONDS):
                self._tell_of(notice.payload)
            yield

    def _tell_of(self, payload: str) -> None:
        try:
            session = UUID(payload)
        except ValueError:
            # Anybody who may connect may speak on a channel.
            return
        self._tell(session)

    def _tell(self, session: UUID | None) -> None:
        with self._changed:
            hearing = list(self._hearing)
        for one in hearing:
            one.hear(session)


def _close(connection: BaseDatabaseWrapper) -> None:
    try:
        if connection.connection is not None:
            # Not given back to a pool, where the next one would hear too.
            connection.connection.close()
        connection.close()
    except Exception as error:
        logger.debug("a connection was broken already: %s", type(error).__name__)
