"""Receive notifications of writes from PostgreSQL, on one connection per process."""

from __future__ import annotations

import logging
import threading
from typing import Any, Protocol
from uuid import UUID

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from django_agent_sessions import conf
from django_agent_sessions.db.notifications import CHANNEL

logger = logging.getLogger("django_agent_sessions")

WAIT_SECONDS = 1.0
"""Seconds between two checks whether there are subscribers."""

MAX_RECONNECT_SECONDS = 30.0
"""Maximum seconds between two attempts to connect."""

_lock = threading.Lock()
_listeners: dict[str, Listener] = {}


class Subscriber(Protocol):
    """A subscriber to notifications."""

    def hear(self, session: UUID | None) -> None:
        """Handle a notification: a session's key, or None if some may have been missed."""


def get_listener(using: str) -> Listener | None:
    """Return the process's listener; None if notifications are not available."""
    alias = conf.get_settings().LISTEN_DATABASE
    if alias is None or connections[using].vendor != "postgresql":
        return None
    if connections[alias].vendor != "postgresql":
        return None
    try:
        import psycopg  # noqa: F401 - version 3; psycopg2 does not provide this package
    except ImportError:
        return None
    with _lock:
        return _listeners.setdefault(alias, Listener(alias))


def is_receiving() -> bool | None:
    """Return whether this process receives notifications; None if none of its streams waits."""
    alias = conf.get_settings().LISTEN_DATABASE
    listener = None if alias is None else _listeners.get(alias)
    return None if listener is None or listener.is_idle else listener.is_listening


class Listener:
    """A thread that listens while there are subscribers, and reconnects after errors."""

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._changed = threading.Condition()
        self._subscribers: set[Subscriber] = set()
        self._thread: threading.Thread | None = None
        self.is_listening = False
        """Whether the connection listens, so that no notification is missed."""

    @property
    def is_idle(self) -> bool:
        """Whether there are no subscribers, so that nothing has to listen."""
        return not self._subscribers

    def subscribe(self, subscriber: Subscriber) -> None:
        with self._changed:
            self._subscribers.add(subscriber)
            if self._thread is None or not self._thread.is_alive():
                name = "agent-sessions-listen"
                self._thread = threading.Thread(target=self._run, name=name, daemon=True)
                self._thread.start()

    def unsubscribe(self, subscriber: Subscriber) -> None:
        with self._changed:
            self._subscribers.discard(subscriber)
            self._changed.notify_all()

    def _run(self) -> None:
        pause = WAIT_SECONDS
        while self._has_subscribers():
            connection = connections[self._alias].copy()
            try:
                for _ in self._listen(connection):
                    pause = WAIT_SECONDS
            except Exception as error:
                # Drivers and networks raise many kinds of errors, and all are transient.
                logger.warning(
                    "the connection that listens for events was lost, reconnecting: %s",
                    type(error).__name__,
                )
            finally:
                self.is_listening = False
                _close(connection)
            # Subscribers have to poll more often from now on.
            self._notify(None)
            with self._changed:
                if self._subscribers:
                    self._changed.wait(pause)
            pause = min(pause * 2, MAX_RECONNECT_SECONDS)

    def _has_subscribers(self) -> bool:
        with self._changed:
            if not self._subscribers:
                self._thread = None
            return bool(self._subscribers)

    def _listen(self, connection: BaseDatabaseWrapper) -> Any:
        """Listen while there are subscribers; yield after each wait."""
        connection.ensure_connection()
        raw: Any = connection.connection
        raw.execute(f"LISTEN {CHANNEL}")
        self.is_listening = True
        # Earlier notifications were missed.
        self._notify(None)
        while self._subscribers:
            for notice in raw.notifies(timeout=WAIT_SECONDS):
                self._handle(notice.payload)
            yield

    def _handle(self, payload: str) -> None:
        try:
            session = UUID(payload)
        except ValueError:
            # Any client of the database may send on the channel.
            return
        self._notify(session)

    def _notify(self, session: UUID | None) -> None:
        with self._changed:
            subscribers = list(self._subscribers)
        for subscriber in subscribers:
            subscriber.hear(session)


def _close(connection: BaseDatabaseWrapper) -> None:
    try:
        if connection.connection is not None:
            # Closed and not returned to a pool, where the next user would still listen.
            connection.connection.close()
        connection.close()
    except Exception as error:
        logger.debug("could not close a connection: %s", type(error).__name__)
