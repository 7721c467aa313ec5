"""Where operations pass telemetry; without an observer, each place compares one variable."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from datetime import datetime
from typing import Literal, Protocol, TypeAlias, TypeVar

from django_agent_sessions.values.records import AgentRecord

R = TypeVar("R")

Ids: TypeAlias = Mapping[str, object]
"""Ids of rows by the names of their attributes; never content."""


def agent_ids(agent: AgentRecord) -> Ids:
    """Return the ids of an agent."""
    return {
        "agent_sessions.session": agent.session,
        "agent_sessions.agent": agent.id,
        "agent_sessions.agent_id": agent.agent_id,
    }


class Observer(Protocol):
    """What is told of operations: ids and figures, never content."""

    def use(self, namespace: str, session_id: str, agent: Hashable) -> None:
        """An SDK's object uses a session, in the caller's thread or task."""

    def run(self, operation: str, function: Callable[[], R], ids: Ids) -> R:
        """Run an operation, and return its result."""

    def append_ended(self, ids: Ids, started: datetime) -> None:
        """An append was committed together with others."""

    def count_written(self, messages: int, size: int) -> None:
        """Messages were written; their size is in bytes."""

    def count_retry(self, reason: Literal["conflict", "outage"]) -> None:
        """A statement is tried again."""


current: Observer | None = None


def use(namespace: str, session_id: str, agent: Hashable = None) -> None:
    """Tell the observer, if there is one, that the caller uses a session."""
    if current is not None:
        current.use(namespace, session_id, agent)
