"""How the contracts drive an adapter: the few words they know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class Driver(Protocol):
    """One adapter, as one process has it. A fresh driver is another process.

    Each driver is made for one owner and one namespace; a session that does not exist is made by
    the first append. The methods are sync and are called from any thread.
    """

    def payload(self, text: str, data: Any = None) -> Any:
        """Makes a valid message of the adapter's dialect, spoken by the user.

        Args:
            text: What it says.
            data: Any JSON value, or bytes, to carry where the dialect has room for one.
        """

    def texts(self, payloads: Sequence[Any]) -> list[str]:
        """Tells what messages say: the ``text`` each of them was made with."""

    def append(self, session_id: str, payloads: Sequence[Any]) -> None:
        """Writes messages behind the last one of a session's conversation.

        Args:
            session_id: The session, made if it does not exist.
            payloads: The messages, written by one call where the adapter has one for several.
        """

    def read(self, session_id: str) -> list[Any]:
        """Reads the whole conversation, as an agent that goes on with it would."""


class AsyncDriver(Driver, Protocol):
    """A driver for :class:`~.AnyContextContract`: both are awaited in running event loops.

    An adapter that has only sync methods, which its SDK calls inside a loop, calls them here too.
    """

    async def aappend(self, session_id: str, payloads: Sequence[Any]) -> None:
        """Does what ``append`` does, in a running event loop."""

    async def aread(self, session_id: str) -> list[Any]:
        """Does what ``read`` does, in a running event loop."""


class PoppingDriver(Driver, Protocol):
    """A driver for :class:`~.PopContract`."""

    def pop(self, session_id: str) -> Any | None:
        """Takes the last message away and returns it; None if there is none."""


class ClearingDriver(Driver, Protocol):
    """A driver for :class:`~.ClearContract`."""

    def clear(self, session_id: str) -> None:
        """Takes all messages away."""


class RedactingDriver(Driver, Protocol):
    """A driver for :class:`~.RedactionContract`."""

    def redact(self, session_id: str, position: int, payload: Any) -> None:
        """Overwrites the message at a position, counted from 0, by its redacted version."""
