"""What this process holds: a lease's token, and until when it is good."""

from __future__ import annotations

import contextvars
import logging
import os
import socket
import threading
from uuid import UUID

from django_agent_sessions import bridge
from django_agent_sessions.ids import new_id

from . import rows
from .renewing import clock, renewer

logger = logging.getLogger("django_agent_sessions")

_RECENTLY = 0.06

_had: dict[tuple[str, UUID], float] = {}


def recently_had(using: str, session: UUID) -> bool:
    """Tells whether this process gave a session back a moment ago, and others may wait for it."""
    _forget_long_ago()
    return (using, session) in _had


def _forget_long_ago() -> None:
    long_ago = clock() - _RECENTLY
    for key, ended in list(_had.items()):
        if ended < long_ago:
            _had.pop(key, None)


class Hold:
    """A session that this process holds, or tries to."""

    def __init__(self, session: UUID, *, seconds: float, using: str) -> None:
        self.session = session
        self.using = using
        self.seconds = seconds
        self.renewal_due = 0.0
        self._token = new_id()
        self._process = os.getpid()
        # Routers, tenants and loggers read it, at a renewal too.
        self._context = contextvars.copy_context()
        self._lock = threading.Lock()
        self._runs = 0
        self._deadline = 0.0
        self._gone = False
        self._unseen = False

    @property
    def taken(self) -> bool:
        """Whether it was taken and not given back; it may be lost by now."""
        return self._runs > 0

    @property
    def lost(self) -> bool:
        """Whether it expired before it could be renewed, or somebody else has it."""
        if self._gone or self._process != os.getpid():
            return True
        # In a test's transaction nobody else can see it.
        return clock() >= self._deadline and not self._unseen

    def take(self) -> rows.Busy | None:
        """Tries to take it; database work."""
        self._unseen = rows.refuse_transaction(self.using, self.session)
        started = clock()
        holder = f"{socket.gethostname()[:200]}:{self._process}"
        busy = rows.take(self.using, self.session, self._token, holder=holder, seconds=self.seconds)
        if busy is None:
            self._runs = 1
            self._note_renewed(started)
        return busy

    def enter(self) -> bool:
        """Begins a run within the run that holds it; tells whether that is still possible."""
        with self._lock:
            if not self._runs or self.lost:
                return False
            self._runs += 1
            return True

    def leave(self) -> bool:
        """Ends a run; tells whether it was the last one, so that it has to be given back."""
        with self._lock:
            self._runs -= 1
            last = not self._runs
        if last:
            renewer.discard(self)
            # Here too: who never waits never asks.
            _forget_long_ago()
            _had[self.using, self.session] = clock()
        return last and self._process == os.getpid()

    def keep(self) -> None:
        """Renews it from now on."""
        if self._runs and not self._unseen:
            renewer.add(self)

    def let_expire(self) -> None:
        """Renews it no longer."""
        renewer.discard(self)

    def give_back(self) -> None:
        """Lets others have it at once; database work."""
        rows.give_back(self.using, self.session, self._token)

    def renew(self) -> bool:
        """Renews it; database work."""
        started = clock()
        if rows.extend(self.using, self.session, self._token, seconds=self.seconds):
            self._note_renewed(started)
            return True
        if self._runs:
            self._gone = True
            logger.warning("the lease of session %s was lost", self.session)
        renewer.discard(self)
        return False

    def renew_apart(self) -> None:
        """Renews it from the renewing thread; after a failure, it is tried again soon."""
        try:
            self._context.run(bridge.run_sync, self.renew, using=self.using)
        except Exception as error:
            # By its type: a database's words may hold anything.
            logger.warning(
                "the lease of session %s was not renewed: %s", self.session, type(error).__name__
            )
            self.renewal_due = clock() + self.seconds / 10

    def _note_renewed(self, started: float) -> None:
        # Counted from before the statement, it is over here before it is over in the database.
        self._deadline = started + self.seconds
        self.renewal_due = started + self.seconds / 3
