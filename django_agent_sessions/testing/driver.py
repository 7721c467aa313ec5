"""The protocol by which the contracts call an adapter."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, Protocol


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

    An adapter whose SDK calls sync methods inside a loop calls them here, too.
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


class ReplacingDriver(Driver, Protocol):
    """A driver for :class:`~.ReplaceContract`."""

    def replace(self, session_id: str, kept: Sequence[Any], summary: Any) -> None:
        """Replace the history with a summary and the messages that are kept."""


class RedactingDriver(Driver, Protocol):
    """A driver for :class:`~.RedactionContract`."""

    def redact(self, session_id: str, position: int, payload: Any) -> None:
        """Replace the message at a position, counted from 0, with its redacted version."""


class ExclusiveDriver(Driver, Protocol):
    """A driver for :class:`~.ExclusiveContract`."""

    async def arun(
        self,
        session_id: str,
        text: str,
        *,
        wait: float = 0.2,
        during: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Append a text and an answer in an exclusive run, in a running event loop.

        Args:
            session_id: The session, which is created if it does not exist.
            text: The text of the user's message.
            wait: Seconds that the run waits for another one.
            during: Awaited between the text and the answer.
        """


class ToolCall(NamedTuple):
    """A call of a tool by the scripted model of an :class:`AgentDriver`; no echo model takes it."""

    tool: str
    arguments: dict[str, Any]
    id: str


class AgentDriver(Driver, Protocol):
    """A driver for :class:`~.AgentContract`, with the SDK's own agents.

    It uses one agent per session, if the SDK's agents keep messages in memory.
    """

    def converse(self, session_id: str, prompt: str, *steps: str | ToolCall) -> list[Any]:
        """Run the agent of a session with a model that answers with the steps.

        Args:
            session_id: The session.
            prompt: The user's message.
            *steps: The model's answers, one for each call. The agent has the tool
                ``register(name)``, which returns ``registered`` and the name.

        Returns:
            The messages that the model received in its last call.
        """

    def kept(self, session_id: str) -> Any:
        """Return the list of messages that the session's agent has in memory.

        None if the SDK's agents read the session before each call of the model.
        """

    def check(self, messages: Sequence[Any]) -> None:
        """Raise ``AssertionError`` if a model's provider would reject these messages."""
