"""The leases that this process holds, and the thread that renews them while there are any."""

from __future__ import annotations

import contextvars
import logging
import os
import socket
import sys
import threading
import time
import weakref
from uuid import UUID

from django_agent_sessions.db import bridge
from django_agent_sessions.models import Session
from django_agent_sessions.signals import lease_lost
from django_agent_sessions.values.ids import new_id

from . import lease_rows

_IDLE_SECONDS = 10.0


def clock() -> float:
    """Return the time in seconds, from a clock that also counts while the machine is suspended."""
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class Renewer:
    """Renew leases until they are discarded or garbage collected."""

    def __init__(self) -> None:
        self._reset()
        if hasattr(os, "register_at_fork"):
            # The leases belong to the parent process, and its thread does not exist here.
            os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        self._changed = threading.Condition()
        self._holds: weakref.WeakSet[HeldLease] = weakref.WeakSet()
        self._thread: threading.Thread | None = None

    def add(self, hold: HeldLease) -> None:
        with self._changed:
            self._holds.add(hold)
            if self._thread is None:
                # A daemon thread: the leases of a process that ends expire.
                self._thread = threading.Thread(
                    target=self._run, name="agent-sessions-leases", daemon=True
                )
                self._thread.start()
            else:
                self._changed.notify()

    def discard(self, hold: HeldLease) -> None:
        with self._changed:
            self._holds.discard(hold)

    def _run(self) -> None:
        while (due := self._next_due()) is not None:
            while due:
                # Popped, so that this thread keeps no reference to a run.
                due.pop().renew_in_thread()

    def _next_due(self) -> list[HeldLease] | None:
        idle_since = clock()
        with self._changed:
            while True:
                now = clock()
                due = [hold for hold in self._holds if hold.renewal_due <= now]
                if due:
                    return due
                if self._holds:
                    idle_since = now
                    self._changed.wait(min(hold.renewal_due for hold in self._holds) - now)
                elif now - idle_since >= _IDLE_SECONDS:
                    self._thread = None
                    return None
                else:
                    self._changed.wait(_IDLE_SECONDS)


renewer = Renewer()


logger = logging.getLogger("django_agent_sessions")

_RECENT_SECONDS = 0.06

_released_at: dict[tuple[str, UUID], float] = {}


def was_released_recently(using: str, session: UUID) -> bool:
    """Return whether this process released the session's lease a moment ago."""
    _prune_released()
    return (using, session) in _released_at


def _prune_released() -> None:
    limit = clock() - _RECENT_SECONDS
    for key, released_at in list(_released_at.items()):
        if released_at < limit:
            _released_at.pop(key, None)


class HeldLease:
    """A lease that this process holds or tries to acquire."""

    def __init__(self, session: UUID, *, seconds: float, using: str) -> None:
        self.session = session
        self.using = using
        self.seconds = seconds
        self.renewal_due = 0.0
        self._token = new_id()
        self._process = os.getpid()
        # Database routers, tenant code and loggers read context variables, at a renewal too.
        self._context = contextvars.copy_context()
        self._lock = threading.Lock()
        self._runs = 0
        self._deadline = 0.0
        self._was_lost = False
        self._was_told = False
        self._in_test_transaction = False

    @property
    def taken(self) -> bool:
        """Whether it was acquired and not released; it may have expired."""
        return self._runs > 0

    @property
    def lost(self) -> bool:
        """Whether it expired before its renewal, or another process holds it."""
        if self._was_lost or self._process != os.getpid():
            return True
        # In a test's transaction no other process sees the row, so it cannot be lost.
        return clock() >= self._deadline and not self._in_test_transaction

    def take(self) -> lease_rows.LeaseHolder | None:
        """Try to acquire it; return the present holder if it is busy. Queries the database."""
        self._in_test_transaction = lease_rows.check_no_transaction(self.using, self.session)
        started = clock()
        holder = f"{socket.gethostname()[:200]}:{self._process}"
        busy = lease_rows.acquire_row(
            self.using, self.session, self._token, holder=holder, seconds=self.seconds
        )
        if busy is None:
            self._runs = 1
            self._note_renewed(started)
        return busy

    def enter(self) -> bool:
        """Begin a nested run; return whether the lease is still held."""
        with self._lock:
            if not self._runs or self.lost:
                return False
            self._runs += 1
            return True

    def leave(self) -> bool:
        """End a run; return whether it was the last one, so that the lease must be released."""
        with self._lock:
            self._runs -= 1
            last = not self._runs
        if last:
            renewer.discard(self)
            # Also here: `was_released_recently` is not called by processes that never wait.
            _prune_released()
            _released_at[self.using, self.session] = clock()
        return last and self._process == os.getpid()

    def keep(self) -> None:
        """Start renewing it."""
        if self._runs and not self._in_test_transaction:
            renewer.add(self)

    def let_expire(self) -> None:
        """Stop renewing it."""
        renewer.discard(self)

    def give_back(self) -> None:
        """Release it. Queries the database."""
        lease_rows.release_row(self.using, self.session, self._token)

    def renew(self) -> bool:
        """Renew it; return whether it is still held. Queries the database."""
        started = clock()
        if lease_rows.renew_row(self.using, self.session, self._token, seconds=self.seconds):
            self._note_renewed(started)
            return True
        if self._runs:
            self._was_lost = True
            logger.warning("lost the lease of session %s", self.session)
            self._tell_lost()
        renewer.discard(self)
        return False

    def renew_in_thread(self) -> None:
        """Renew it from the renewing thread; retry soon after an error."""
        try:
            self._context.run(bridge.run_sync, self.renew, using=self.using)
        except Exception as error:
            # Only the type: a database error's text may contain content.
            logger.warning(
                "could not renew the lease of session %s: %s", self.session, type(error).__name__
            )
            self.renewal_due = clock() + self.seconds / 10
            if self._runs and self.lost:
                self._tell_lost()

    def _tell_lost(self) -> None:
        if not self._was_told:
            self._was_told = True
            lease_lost.send_robust(Session, using=self.using, session=self.session)

    def _note_renewed(self, started: float) -> None:
        # Counted from before the statement, so that it expires here before it does in the database.
        self._deadline = started + self.seconds
        self.renewal_due = started + self.seconds / 3
