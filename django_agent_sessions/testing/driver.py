"""The protocol by which the contracts call an adapter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class Driver(Protocol):
    """An adapter as used by one process. A new driver stands for another process.

    Each driver is created for one owner and one namespace; the first append creates the session.
    The methods are sync and are called from any thread.
    """

    def payload(self, text: str, data: Any = None) -> Any:
        """Return a valid message of the user in the adapter's dialect.

        Args:
            text: The text of the message.
            data: A JSON value, or bytes, to include if the dialect can store it.
        """

    def texts(self, payloads: Sequence[Any]) -> list[str]:
        """Return the ``text`` that each message was created with."""

    def append(self, session_id: str, payloads: Sequence[Any]) -> None:
        """Append messages to a session's conversation.

        Args:
            session_id: The session, which is created if it does not exist.
            payloads: The messages, written by one call if the adapter supports it.
        """

    def read(self, session_id: str) -> list[Any]:
        """Read the whole conversation, as an agent that continues it would."""


class AsyncDriver(Driver, Protocol):
    """A driver for :class:`~.AnyContextContract`: both methods are awaited in running event loops.

    An adapter with sync methods only, which its SDK calls inside a loop, calls them here too.
    """

    async def aappend(self, session_id: str, payloads: Sequence[Any]) -> None:
        """Append as ``append`` does, in a running event loop."""

    async def aread(self, session_id: str) -> list[Any]:
        """Read as ``read`` does, in a running event loop."""


class PoppingDriver(Driver, Protocol):
    """A driver for :class:`~.PopContract`."""

    def pop(self, session_id: str) -> Any | None:
        """Remove the last message and return it; return None if there is none."""


class ClearingDriver(Driver, Protocol):
    """A driver for :class:`~.ClearContract`."""

    def clear(self, session_id: str) -> None:
        """Delete all messages."""


class RedactingDriver(Driver, Protocol):
    """A driver for :class:`~.RedactionContract`."""

    def redact(self, session_id: str, position: int, payload: Any) -> None:
        """Replace the message at a position, counted from 0, with its redacted version."""
