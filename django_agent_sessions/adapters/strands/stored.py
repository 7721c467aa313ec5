"""Strands' data classes of the documents in its files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from strands.types.session import SessionAgent, SessionMessage

from django_agent_sessions.exceptions import PayloadError

R = TypeVar("R")


def made(make: Callable[[dict[str, Any]], R], document: dict[str, Any]) -> R:
    """Makes something of a document, which may be any JSON object."""
    try:
        return make(document)
    except (KeyError, TypeError) as error:
        kind = type(error).__name__
    raise PayloadError(f"it is not what Strands writes there: {kind}")


def session_agent(document: dict[str, Any]) -> SessionAgent:
    """As ``SessionAgent.from_dict`` does, on bytes that are bytes already."""
    if not isinstance(document["state"], dict):
        raise TypeError("the state is no object")
    return SessionAgent(
        document["agent_id"],
        document["state"],
        document["conversation_manager_state"],
        document.get("_internal_state", {}),
        **_times(document),
    )


def session_message(document: dict[str, Any], number: int) -> SessionMessage:
    """As ``SessionMessage.from_dict`` does, on bytes that are bytes already.

    ``from_dict`` takes fifty times as long, because it looks up the class's signature for each key.
    """
    # The number is that of the file, which a copy may not have inside.
    return SessionMessage(
        document["message"], number, document.get("redact_message"), **_times(document)
    )


def agent_without_state(agent_id: str) -> SessionAgent:
    """An agent whose state was lost, and which any conversation manager takes."""
    return SessionAgent(agent_id, {}, {"__name__": _AnyName(), "removed_message_count": 0})


class _AnyName(str):
    """The name of whichever conversation manager compares its own with it."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str)

    def __ne__(self, other: object) -> bool:
        return not self == other


def _times(document: dict[str, Any]) -> dict[str, str]:
    return {name: document[name] for name in ("created_at", "updated_at") if name in document}
