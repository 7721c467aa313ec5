"""The lock of a conversation, which an append keeps while it goes on in another thread."""

from __future__ import annotations

import threading
from contextvars import ContextVar
from typing import Self

from django_agent_sessions.exceptions import ConfigurationError

# The holds of this context, which follow an append from thread to thread.
_holds: ContextVar[tuple[object, ...]] = ContextVar("django_agent_sessions.held_locks", default=())


class ConversationLock:
    """A lock that belongs to a context and not to a thread.

    Who asks for it twice, such as a receiver of ``messages_added`` that appends to the same agent,
    would wait for itself for ever, and gets an error instead.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._hold: object | None = None

    def acquire(self, *, blocking: bool = True) -> bool:
        """Take the lock, and return whether it was taken.

        Raises:
            ConfigurationError: The caller has it already.
        """
        if (hold := self._hold) is not None and hold in _holds.get():
            raise ConfigurationError(
                "a message of this agent is being written: a receiver of a signal cannot write "
                "another one; write it in a task that begins after the receiver has ended"
            )
        if not self._lock.acquire(blocking):
            return False
        self._hold = hold = object()
        _holds.set((*_holds.get(), hold))
        return True

    def release(self) -> None:
        """Give the lock back."""
        hold, self._hold = self._hold, None
        _holds.set(tuple(other for other in _holds.get() if other is not hold))
        self._lock.release()

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *error: object) -> None:
        self.release()
