"""The agent state in a snapshot's document.

The format is that of Strands: ``{"scope", "schema_version", "created_at", "data", "app_data"}``,
with null in place of the messages. No SDK is imported here.

Source: https://strandsagents.com, ``strands.types._snapshot`` (schema version 1.0).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from django_agent_sessions.values.records import AgentState

_INTERNAL = ("interrupt_state", "model_state")


def state_in_document(document: Any) -> AgentState:
    data = document.get("data") if isinstance(document, Mapping) else None
    if not isinstance(data, Mapping):
        return AgentState()
    return AgentState(
        state=data.get("state") or {},
        conversation_manager_state=data.get("conversation_manager_state") or {},
        internal_state={name: data[name] for name in _INTERNAL if name in data},
    )


def agent_document(state: AgentState, moment: datetime) -> dict[str, Any]:
    """Return the document of an agent that has no snapshot yet."""
    internal = state.internal_state if isinstance(state.internal_state, Mapping) else {}
    return {
        "scope": "agent",
        "schema_version": "1.0",
        "created_at": f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}Z",
        "data": {
            "messages": None,
            "state": state.state,
            # A conversation manager rejects an empty state.
            **(
                {"conversation_manager_state": state.conversation_manager_state}
                if state.conversation_manager_state
                else {}
            ),
            **{name: internal[name] for name in _INTERNAL if name in internal},
        },
        "app_data": {},
    }


def orchestrator_document(state: Any, moment: datetime) -> dict[str, Any]:
    """Return the document of an orchestrator's state."""
    return {
        "scope": "multi_agent",
        "schema_version": "1.0",
        "created_at": f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}Z",
        "data": {"state": state},
        "app_data": {},
    }


def without_message_references(state: AgentState) -> AgentState:
    """Return a state without the parts that refer to messages, which have changed."""
    manager = state.conversation_manager_state
    if isinstance(manager, Mapping):
        initial = {"removed_message_count": 0, "summary_message": None}
        manager = {key: initial.get(key, value) for key, value in manager.items()}
    internal = state.internal_state
    if isinstance(internal, Mapping):
        internal = {key: value for key, value in internal.items() if key != "interrupt_state"}
    return AgentState(state.state, manager, internal)
