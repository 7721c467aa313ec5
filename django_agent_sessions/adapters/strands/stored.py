"""Parse the documents in Strands' files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from strands.types.session import SessionAgent, SessionMessage

from django_agent_sessions.exceptions import PayloadError

R = TypeVar("R")


def build_from_dict(make: Callable[[dict[str, Any]], R], document: dict[str, Any]) -> R:
    """Build an object from a document; raise ``PayloadError`` if its fields are wrong."""
    try:
        return make(document)
    except (KeyError, TypeError) as error:
        kind = type(error).__name__
    raise PayloadError(f"it is not a Strands document: {kind}")


def agent_from_dict(document: dict[str, Any]) -> SessionAgent:
    """Build a ``SessionAgent`` as ``from_dict`` does, from a document whose bytes are decoded."""
    if not isinstance(document["state"], dict):
        raise TypeError("the state is not an object")
    return SessionAgent(
        document["agent_id"],
        document["state"],
        document["conversation_manager_state"],
        document.get("_internal_state", {}),
        **_times(document),
    )


def message_from_dict(document: dict[str, Any], number: int) -> SessionMessage:
    """Build a ``SessionMessage`` as ``from_dict`` does, from a document whose bytes are decoded.

    ``from_dict`` takes fifty times as long, because it reads the class's signature for each key.
    """
    # The number of the file: a copied file may contain another one.
    return SessionMessage(
        document["message"], number, document.get("redact_message"), **_times(document)
    )


def session_agent_without_state(agent_id: str) -> SessionAgent:
    """Return an agent with an empty state that every conversation manager accepts."""
    return SessionAgent(agent_id, {}, {"__name__": _MatchesAnyName(), "removed_message_count": 0})


class _MatchesAnyName(str):
    """A name that is equal to the name of every conversation manager."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str)

    def __ne__(self, other: object) -> bool:
        return not self == other


def _times(document: dict[str, Any]) -> dict[str, str]:
    return {name: document[name] for name in ("created_at", "updated_at") if name in document}
