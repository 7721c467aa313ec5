"""The state of an agent as the columns of its row."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from .records import AgentState

STATES = tuple(each.name for each in fields(AgentState))
"""The columns of an agent's state."""


def state_of(row: Any) -> AgentState:
    """Return the state in an agent's row, or in the columns that `sql.lookup` reads."""
    return AgentState(*(getattr(row, name) for name in STATES))


def state_columns(state: AgentState) -> dict[str, Any]:
    """Return the values of the columns of an agent's state."""
    return {name: getattr(state, name) for name in STATES}
